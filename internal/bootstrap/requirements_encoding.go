package bootstrap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// codingLine matches the comment by which pip knows a file's encoding, in one of its first two lines.
var codingLine = regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)`)

// codings are encodings of one byte a letter, by their names for Python in small letters and with "-" for "_". Each is Latin-1
// but for some bytes.
var codings = map[string]map[byte]rune{
	"latin-1": {}, "latin1": {}, "l1": {}, "iso-8859-1": {}, "iso8859-1": {}, "cp819": {},
	"cp1252": windows1252, "windows-1252": windows1252, "1252": windows1252,
	"iso-8859-15": latin9, "iso8859-15": latin9, "latin-9": latin9, "latin9": latin9,
}

var (
	windows1252 = runes(0x80, "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ")
	latin9      = map[byte]rune{0xa4: '€', 0xa6: 'Š', 0xa8: 'š', 0xb4: 'Ž', 0xb8: 'ž', 0xbc: 'Œ', 0xbd: 'œ', 0xbe: 'Ÿ'}
)

// runes gives the letters of a text to the bytes from one on. A byte that is no letter of UTF-8 stands for itself.
func runes(from byte, text string) map[byte]rune {
	all := map[byte]rune{}
	for _, r := range text {
		if r != utf8.RuneError {
			all[from] = r
		}
		from++
	}
	return all
}

// fromBytes decodes a text of one byte a letter.
func fromBytes(content []byte, other map[byte]rune) []byte {
	out := make([]byte, 0, len(content))
	for _, b := range content {
		r, differs := other[b]
		if !differs {
			r = rune(b)
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// decode returns a requirements file as UTF-8 with the line ends of Unix. As for pip, a byte order mark says what it is in,
// or else a coding line; PowerShell writes UTF-16.
func decode(name string, content []byte) ([]byte, error) {
	text, err := decodeByMark(content)
	if err == nil && text == nil {
		text, err = decodeByLine(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return nil, fmt.Errorf("%s:%d: it is not text: it has a byte 0; if it is in UTF-16 without a byte order mark, save it as UTF-8", name, lineAt(text, at))
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n")), nil
}

// decodeByMark returns nil if there is no byte order mark.
func decodeByMark(content []byte) ([]byte, error) {
	for _, m := range []struct {
		mark  string
		width int
		order binary.ByteOrder
	}{
		{"\xff\xfe\x00\x00", 4, binary.LittleEndian}, {"\x00\x00\xfe\xff", 4, binary.BigEndian},
		{"\xff\xfe", 2, binary.LittleEndian}, {"\xfe\xff", 2, binary.BigEndian}, {"\xef\xbb\xbf", 1, nil},
	} {
		rest, marked := bytes.CutPrefix(content, []byte(m.mark))
		switch {
		case !marked:
			continue
		case m.width == 1:
			return append([]byte{}, rest...), checkUTF8(rest)
		case len(rest)%m.width != 0:
			return nil, fmt.Errorf("it is in UTF-%d, and cut", 8*m.width)
		}
		out := []byte{} // not nil
		var units []uint16
		for ; len(rest) > 0; rest = rest[m.width:] {
			if m.width == 2 {
				units = append(units, m.order.Uint16(rest))
			} else {
				out = utf8.AppendRune(out, rune(min(m.order.Uint32(rest), utf8.MaxRune+1)))
			}
		}
		return append(out, string(utf16.Decode(units))...), nil
	}
	return nil, nil
}

// decodeByLine decodes a file without a mark. Its coding line says UTF-8 afterwards.
func decodeByLine(content []byte) ([]byte, error) {
	start := 0
	for range 2 {
		end := len(content)
		if n := bytes.IndexByte(content[start:], '\n'); n >= 0 {
			end = start + n + 1
		}
		if at := codingLine.FindSubmatchIndex(content[start:end]); at != nil {
			name := string(content[start+at[2] : start+at[3]])
			switch plain := strings.ReplaceAll(strings.ToLower(name), "_", "-"); {
			case plain == "utf-8", plain == "utf8", plain == "utf-8-sig", plain == "ascii", plain == "us-ascii":
			case codings[plain] != nil:
				return bytes.Replace(fromBytes(content, codings[plain]), []byte(name), []byte("utf-8"), 1), nil
			default:
				return nil, fmt.Errorf("its coding line says %q; save it as UTF-8, without that line", name)
			}
			break
		}
		start = end
	}
	return content, checkUTF8(content)
}

func checkUTF8(text []byte) error {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n < 2 {
			return fmt.Errorf("line %d is not text in UTF-8; save the file as UTF-8, or begin it with the line # -*- coding: latin-1 -*-", lineAt(text, at))
		}
		at += n
	}
	return nil
}

func lineAt(text []byte, at int) int { return bytes.Count(text[:at], []byte("\n")) + 1 }

// A form is how another tool lists packages, and how its first lines show that.
type form struct {
	line   *regexp.Regexp // of a line without its comment
	remedy string
}

const (
	freeze = `"pip list --format=freeze" prints what pip reads`
	export = "uv pip freeze, or " + freeze
)

var forms = []form{
	{regexp.MustCompile(`(?i)^package\s+version(\s+(editable project )?location)?$|^-{3,}(\s+-{3,})+$`), "it is the table of pip list; " + freeze},
	{regexp.MustCompile(`^[\w.-]+\s+v?[0-9][\w.+!-]*(\s+\S+)*$`), "it is a table of names and versions; " + freeze},
	{regexp.MustCompile(`^[\w.-]+=[^=~<>!\s]+(=\S+)?$`), "one = is conda's; write ==, without the build: " + export},
	{regexp.MustCompile(`^@EXPLICIT$|(?i)\.conda(#\S*)?$|://repo\.anaconda\.com/`), "it is conda's list of its own packages, which pip cannot install; " + freeze + " in that environment"},
	{regexp.MustCompile(`^(name|channels|dependencies|prefix|variables)\s*:`), "it is conda's environment.yml; list its packages of pip in a requirements.txt"},
	{regexp.MustCompile(`^\[\[?[\w."-]+\]?\]$`), "it is TOML; name the pyproject.toml with a uv.lock beside it, or write a requirements.txt"},
	{regexp.MustCompile(`^[{}]|^"[^"]*"\s*:`), "it is JSON; write a requirements.txt"},
	{regexp.MustCompile(`(?i)^(pip|uv|python3?|conda|apt|apt-get)\s+(-m\s+pip\s+)?install\b`), "it is a command; write the packages alone"},
	{regexp.MustCompile(`^(<<<<<<<|=======|>>>>>>>)`), "it is left over from a merge in git"},
}

// builtElsewhere matches the place of a package that conda, or a build service, has built on its own machine: pip freeze
// prints it in environments of conda.
var builtElsewhere = regexp.MustCompile(`(?i)^/*([a-z]:|croot/|users/|private/|.*/?(feedstock_root|conda-bld|ci_py\d+)/|tmp/(build|abs_)|opt/concourse/|ci/|.*/work(/dist)?/?$|.*_h_env)`)

// requirement matches a requirement that names no place: a package, extras, and versions.
var requirement = func() *regexp.Regexp {
	const name, version = `[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?`, `(?:===|==|~=|!=|<=|>=|<|>)\s*[\w.*+!-]+`
	return regexp.MustCompile(`^` + name + `\s*(?:\[[\w\s.,-]*\])?\s*(?:\(\s*)?(?:` + version + `\s*(?:,\s*` + version + `\s*)*,?\s*)?\)?$`)
}()

// checkForm refuses a line of a form that pip does not read. whole reports that the file as a whole has that form.
func checkForm(line string) (whole bool, err error) {
	for _, f := range forms {
		if f.line.MatchString(line) {
			return true, fmt.Errorf("%q: %s", cut(line), f.remedy)
		}
	}
	if strings.HasPrefix(line, "-") || strings.Contains(line, "${") || place(line) != "" {
		return false, nil
	}
	line, _, _ = strings.Cut(line, " --")
	line, _, _ = strings.Cut(line, ";")
	if !requirement.MatchString(strings.TrimSpace(line)) {
		return false, fmt.Errorf("%q is no requirement, as pip reads them: write name==version", cut(line))
	}
	return false, nil
}

// cut returns what an error shows of a line.
func cut(line string) string {
	const most = 80
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}

// isOfHome reports whether a path is that of a file in this user's home folder.
func isOfHome(at string) bool {
	home, err := os.UserHomeDir()
	if err != nil || filepath.Dir(home) == home || !strings.HasPrefix(at, strings.TrimSuffix(filepath.ToSlash(home), "/")+"/") {
		return false
	}
	_, err = os.Stat(at)
	return err == nil
}

// checkBuilt refuses the place of a package that was built on another computer. It judges lines of
// pip freeze, "name @ file:///place": any other path was written for the node.
func checkBuilt(line, at string) error {
	name, _, direct := strings.Cut(line, "@")
	if direct = direct && !strings.HasPrefix(line, "-"); !(direct && builtElsewhere.MatchString(at)) && !isOfHome(at) {
		return nil
	}
	if !direct {
		name = "NAME"
	}
	name = strings.TrimSpace(name)
	return fmt.Errorf("%q is a folder of the computer that has built the package, as conda does, which no node has; write %s==VERSION: %s", cut(at), name, freeze)
}
