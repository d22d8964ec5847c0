package simnode

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/sshd"
)

// greeting is what stands between the scripts and the calls of a control session.
var greeting = []byte("\necho 'gputrain-supervisor ")

// shell is a shell that reads its stdin: a control session, or the end of a node.
func (n *Node) shell(p sshd.Program) int {
	in := &input{r: p.Stdin}
	at, err := in.find(greeting)
	if errors.Is(err, io.EOF) { // no control session: the scripts, and one call
		text := string(in.b)
		at := strings.LastIndex(text, "\ngt_close ")
		if at < 0 {
			return refuse(p, "it knows no such script")
		}
		words, err := split(text[at+1:])
		if err != nil || len(words) < 5 {
			return refuse(p, "a call cannot be read")
		}
		generation, err := strconv.Atoi(words[4])
		if err != nil {
			return refuse(p, "a call cannot be read")
		}
		if !n.close(words[2], words[3] == "1", generation) {
			io.WriteString(p.Stdout, "fenced\n")
			return 1
		}
		io.WriteString(p.Stdout, "closed\n")
		return 0
	}
	if err != nil {
		return 255
	}
	in.drop(at + 1)
	return n.control(in, p)
}

// An input is a shell's stdin.
type input struct {
	r io.Reader
	b []byte // read and not yet taken
}

// more reads on.
func (in *input) more() error {
	var chunk [8 << 10]byte
	n, err := in.r.Read(chunk[:])
	in.b = append(in.b, chunk[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (in *input) drop(n int) { in.b = in.b[n:] }

// find reads until what is held has a text, and returns where.
func (in *input) find(text []byte) (int, error) {
	for from := 0; ; {
		if at := bytes.Index(in.b[from:], text); at >= 0 {
			return from + at, nil
		}
		from = max(len(in.b)-len(text), 0)
		if err := in.more(); err != nil {
			return 0, err
		}
	}
}

// line takes one command line, whose quoted words may hold newlines.
func (in *input) line() ([]string, error) {
	for from := 0; ; {
		if n := lineEnd(in.b, from); n >= 0 {
			words, err := split(string(in.b[:n]))
			in.drop(n + 1)
			return words, err
		}
		if err := in.more(); err != nil {
			return nil, err
		}
	}
}

// lineEnd returns where the newline outside quotes is, or -1.
func lineEnd(b []byte, from int) int {
	quoted := false
	for i := from; i < len(b); i++ {
		switch {
		case b[i] == '\'':
			quoted = !quoted
		case quoted:
		case b[i] == '\\':
			i++
		case b[i] == '\n':
			return i
		}
	}
	return -1
}

var errQuote = errors.New("a quoted word does not end")

// split splits a command line into words, as far as internal/supervisor writes
// such: plain, in single quotes, or after a backslash.
func split(s string) (words []string, err error) {
	var word []byte
	has := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\n':
			if has {
				words = append(words, string(word))
			}
			word, has = word[:0], false
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, errQuote
			}
			word, has = append(word, s[i+1:i+1+end]...), true
			i += end + 1
		case '\\':
			if i++; i == len(s) {
				return nil, errQuote
			}
			word, has = append(word, s[i]), true
		default:
			word, has = append(word, c), true
		}
	}
	if has {
		words = append(words, string(word))
	}
	return words, nil
}

var storing = regexp.MustCompile(` -le ([0-9]+) \] \|\| exit 77; cat >(.*)\.[0-9]+ && mv -f `)

// stored returns the file that a script of internal/supervisor's store writes, and
// its client's generation.
func stored(script string) (generation int, file string, ok bool) {
	m := storing.FindStringSubmatch(script)
	if m == nil {
		return 0, "", false
	}
	words, err := split(m[2])
	if err != nil || len(words) != 1 {
		return 0, "", false
	}
	generation, err = strconv.Atoi(m[1])
	return generation, words[0], err == nil
}
