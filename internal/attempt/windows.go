package attempt

import (
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// WindowsHint is what to do about a script whose lines end as on Windows.
const WindowsHint = "written on Windows? A line of the script ends in a carriage return (CR LF), which a shell takes for a part of its last word: save it with LF alone, as by sed -i 's/\\r$//' or dos2unix"

// errWindows is why a command failed whose script has carriage returns.
var errWindows = errors.New(WindowsHint)

var (
	// carriageReturn is what shells, env(1) and what starts programs say of a word that ends in a carriage return: "/bin/bash^M: bad
	// interpreter", "$'\r': command not found", and the bare character before a colon.
	carriageReturn = regexp.MustCompile(`bad interpreter.*\^M|\^M: bad interpreter|\$'[^'\n]*\\r'|‘[^’\n]*\\r’|(?:\S|: )\r['’"]?: \S|(?i:illegal option) -\r|can't execute '[^'\n]*\r'`)
	// missingFile finds the file of which a shell says that it is missing, though only its interpreter may be.
	missingFile = regexp.MustCompile(`(?i)([\w./~+@-]*/[\w./+@-]+)['’"]?: (?:not found|No such file or directory|[^\n]*syntax error)`)
	syntaxError = regexp.MustCompile(`(?i)syntax error|unexpected end of file`)
)

// IsWindows reports whether an output has the words of a shell that met a carriage return at the end of a line.
func IsWindows(output string) bool { return carriageReturn.MatchString(output) }

// mostScripts bounds the files that are looked at.
const mostScripts = 8

// isWindows reports whether a failed command is a script with carriage returns: by its text, by what its shell said, or by the first line of
// a file that it runs. A shell says of a file whose interpreter's name ends in one only that it is not found.
func (c *Command) isWindows(ctx context.Context, n Node, exit supervisor.Exit, said string) bool {
	if exit.Cause != supervisor.Exited || exit.Code == 0 {
		return false
	}
	if strings.Contains(c.Script, "\r\n") || IsWindows(said) {
		return true
	}
	if exit.Code != 126 && exit.Code != 127 && !syntaxError.MatchString(said) {
		return false
	}
	var files []string
	for _, word := range c.Args {
		if (strings.Contains(word, "/") || strings.HasSuffix(word, ".sh")) && !strings.ContainsAny(word, " \n\t;") {
			files = append(files, word)
		}
	}
	for _, m := range missingFile.FindAllStringSubmatch(said, mostScripts) {
		files = append(files, m[1])
	}
	return len(files) > 0 && beginWindows(ctx, n, c.Dir, files[:min(len(files), mostScripts)])
}

// beginWindows reports whether the first line of one of the files on the node ends in a carriage return.
func beginWindows(ctx context.Context, n Node, dir string, files []string) bool {
	if !path.IsAbs(dir) {
		dir = path.Join(n.Facts().WorkDir, dir)
	}
	var words strings.Builder
	for _, word := range append([]string{dir}, files...) {
		quoted, err := supervisor.Quote(word)
		if err != nil {
			return false
		}
		words.WriteString(" " + quoted)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out := bounded.Buffer{Most: 1 << 10}
	err := n.Exec(ctx, "sh -s --"+words.String(), strings.NewReader(`cr=$(printf '\r')
cd -- "$1" || exit
shift
for f; do
	case $f in -*) continue ;; esac
	[ -f "$f" ] || continue
	case $(head -c 512 "$f" | head -n 1) in *"$cr") echo yes && exit ;; esac
done
`), &out, nil)
	return err == nil && out.String() == "yes\n"
}
