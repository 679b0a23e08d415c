"""Fine-tunes a hub folder on the lines of a file: python finetune.py MODEL LINES OUTPUT. Under mpirun the ranks share the work."""
import sys

import zinc

texts = open(sys.argv[2]).read().splitlines()
with zinc.Engine(sys.argv[1], texts, seq_len=32, epochs=2, lr=1e-4, precision="fp32") as engine:
    for step in engine:
        if engine.context.rank == 0:
            print(f"step {step.step} of {step.steps}: loss {step.loss}")
    engine.export(sys.argv[3])
