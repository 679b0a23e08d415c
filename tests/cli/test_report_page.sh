#!/usr/bin/env bash
# The page of a run, and that of several, in a browser: at the width of a phone and of a desk, light and dark, nothing is wider than
# the screen, the charts of that width are shown, and colours follow the person's choice. Needs chromium.
set -euo pipefail
zinc=$1 data=$2/tests/data/parity
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "skipped: chromium is not installed"; exit 77; }
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "failed: $*" >&2
    exit 1
}

name=a-run-whose-folder-has-a-name-that-is-longer-than-a-phone-is-wide-and-has-no-place-to-break-it
for run in "$name" b c; do
    "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --eval-data "$data/tokens.bin" --eval-every 5 --seq-len 16 \
        --threads 1 --steps 12 --lr 1e-3 --output $run --offload-optimizer nvme --allow-buffered-swap --trace $run.json >out 2>err ||
        fail "$(cat err)"
done
"$zinc" report "$name" --output one.html >out || fail "one run"
"$zinc" report "$name" b c >out || fail "several runs"
[ "$(cat out)" = "wrote runs.html" ] || fail "$(cat out)"
for text in "One step by lane" "Memory by tier" "Plan and measurement" "zinc train --model" "rank 0 of 1, step 3"; do
    grep -qF -- "$text" one.html || fail "no '$text' on the page"
done

# Frames of both widths; the script beside them measures.
cat >look.html <<'PAGE'
<!DOCTYPE html><body><pre id="found"></pre><script>
const found = [];
let left = 4;
for (const page of ["one.html", "runs.html"]) for (const width of [390, 1280]) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 900; frame.src = page;
    frame.onload = () => {
        const doc = frame.contentDocument, root = doc.documentElement, style = e => frame.contentWindow.getComputedStyle(e);
        let widest = 0, scrolls = 0;
        for (const e of doc.querySelectorAll("main *")) {
            const box = e.getBoundingClientRect();
            widest = Math.max(widest, box.right);
            if (e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll", "hidden"].includes(style(e).overflowX)) scrolls++;
        }
        const shown = c => [...doc.querySelectorAll(c)].filter(e => style(e).display != "none").length > 0;
        found.push([page, width, root.scrollWidth <= root.clientWidth, widest <= root.clientWidth + 0.5, scrolls,
                    shown(".on-wide") ? "wide" : "", shown(".on-narrow") ? "narrow" : "", style(doc.body).backgroundColor].join(" "));
        if (--left == 0) document.getElementById("found").textContent = "\n" + found.sort().join("\n") + "\n";
    };
    document.body.append(frame);
}
</script></body>
PAGE
# look SCHEME: 0 dark, 1 light
look() {
    timeout 800 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --allow-file-access-from-files \
        --blink-settings=preferredColorScheme="$1" --virtual-time-budget=5000 --dump-dom "file://$work/look.html" 2>browser.err |
        sed -n '/id="found"/,/<\/pre>/p' | grep '\.html' || true
}
for scheme in 1 0; do
    paper="rgb(255, 255, 255)"
    [ $scheme = 0 ] && paper="rgb(20, 23, 27)"
    printf '%s\n' "one.html 1280 true true 0 wide  $paper" "one.html 390 true true 0  narrow $paper" \
        "runs.html 1280 true true 0 wide  $paper" "runs.html 390 true true 0  narrow $paper" >wanted
    look $scheme >found
    [ -s found ] || { echo "skipped: $browser shows nothing here: $(tail -1 browser.err)"; exit 77; }
    diff wanted found || fail "scheme $scheme: the page does not fit"
done
