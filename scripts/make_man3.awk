# Manual pages of section 3 from the public headers: for every ZN_API function the comment before it, its declaration, and the structs
# that it takes. Pages go to `dir`, one file each; a function without a comment is an error.
#   awk -v dir=OUT -v version=0.1.0 -f make_man3.awk include/zinc/*.h

function escape(text)
{
    gsub(/\\/, "\\e", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# A comment without its stars, as lines.
function clean(line)
{
    sub(/^[ \t]*\/\*+ ?/, "", line)
    sub(/ ?\*+\/[ \t]*$/, "", line)
    sub(/^[ \t]*\* ?/, "", line)
    return line
}

function first_sentence(text, n)
{
    gsub(/\n/, " ", text)
    n = match(text, /[.:;]( |$)/)
    text = n ? substr(text, 1, RSTART - 1) : text
    return tolower(substr(text, 1, 1)) substr(text, 2)
}

function print_text(file, text, lines, n, i)
{
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++)
        print (lines[i] == "" ? ".PP" : escape(lines[i])) > file
}

# Of code every line as it is.
function print_code(file, text, lines, n, i)
{
    print ".nf" > file
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++)
        print escape(lines[i]) > file
    print ".fi" > file
}

function page(declaration, name, file, key)
{
    gsub(/\n[ \t]*/, " ", declaration)
    sub(/^ZN_API /, "", declaration)
    name = declaration
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (comment == "") {
        printf "%s: %s has no comment\n", FILENAME, name > "/dev/stderr"
        failed = 1
        return
    }
    file = dir "/" name ".3"
    printf ".TH %s 3 \"\" \"zinc %s\" \"Zinc library\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, name, first_sentence(comment) > file
    print ".SH SYNOPSIS" > file
    print_code(file, "#include <zinc/" header ">\n\n" declaration)
    print ".SH DESCRIPTION" > file
    print_text(file, comment)
    for (key in structs)
        if (declaration ~ ("struct " key "[ )*]")) {
            print ".SS struct " key > file
            print_code(file, structs[key])
        }
    print ".SH SEE ALSO\n.BR zinc (1)" > file
    close(file)
}

FNR == 1 {
    header = FILENAME
    sub(/.*\//, "", header)
    comment = declaration = ""
    in_comment = in_struct = 0
}

in_comment {
    comment = comment "\n" clean($0)
    if (/\*\//)
        in_comment = 0
    next
}

in_struct {
    body = body "\n" $0
    if (/^};/) {
        structs[struct_name] = body
        in_struct = 0
        comment = ""
    }
    next
}

declaration != "" || /^ZN_API / {
    declaration = declaration (declaration == "" ? "" : "\n") $0
    if (/;/) {
        page(declaration)
        declaration = comment = ""
    }
    next
}

/^\/\*/ {
    comment = clean($0)
    if (!/\*\//)
        in_comment = 1
    next
}

/^struct [a-z_0-9]+ \{/ {
    struct_name = $2
    body = $0
    in_struct = 1
    next
}

/^$/ { next }

{ comment = "" }

END { exit failed }
