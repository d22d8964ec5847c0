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

// greeting stands between the scripts and the calls of a control session.
var greeting = []byte("\necho 'gputrain-supervisor ")

// shell is a shell that reads its stdin: a control session, or the end of a node.
func (n *Node) shell(p sshd.Program) int {
	in := &input{r: p.Stdin}
	if p.Command == "exec sh -s" && n.sh(in, p) {
		return 0
	}
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
	b []byte // read and not yet consumed
}

// more reads more input.
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

// find reads until the input has a text, and returns its offset.
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

// line reads one command line, whose quoted words may hold newlines.
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

// lineEnd returns the offset of the newline outside quotes, or -1.
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

// split splits a command line into words, in the forms that internal/supervisor writes: plain, in single quotes, or
// after a backslash.
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

var storing = regexp.MustCompile(` -le ([0-9]+) \] \|\| exit 77; cat >(.*)\.[0-9]+ && \{ \[ \$\(wc -c <.*\) -eq ([0-9]+) \] \|\| `)

// A storage is a store script of internal/supervisor: its client's generation, the file and its size.
type storage struct {
	generation int
	file       string
	size       int
}

func stored(script string) (s storage, ok bool) {
	m := storing.FindStringSubmatch(script)
	if m == nil {
		return s, false
	}
	words, err := split(m[2])
	if err != nil || len(words) != 1 {
		return s, false
	}
	s.file = words[0]
	if s.generation, err = strconv.Atoi(m[1]); err != nil {
		return s, false
	}
	s.size, err = strconv.Atoi(m[3])
	return s, err == nil
}
