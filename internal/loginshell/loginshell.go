// Package loginshell has a user's login shell run shell text of ours, whatever that shell is and whatever its start files do.
//
// An SSH server gives a command to the user's login shell, which first reads its start files: these may print, set options
// and define aliases, and the shell may be csh or fish. So only the words of [Command] depend on it: they mean the same to
// every shell, and replace it by /bin/sh, which prints a mark to both outputs and then runs the text. An [Output] begins
// behind the mark.
package loginshell

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// loader is the program of /bin/sh. Its arguments are the mark and the pieces of the text: see the kinds. It undoes what a
// bash that is sh takes from the environment: options and functions. Within single quotes none of it means anything to any
// shell, and csh reads no word of more than 1 KiB.
const loader = `set +aefuvxC;unset -f cd echo printf read test kill command ls rm cat mkdir;` +
	`gt_n=${IFS#??};gt_n=${gt_n%"${gt_n#?}"};gt_c=;gt_m=$1;shift;` +
	`for gt_a;do case $gt_a in [nN]*)gt_c=$gt_c$gt_n;;esac;` +
	`case $gt_a in [NM]*)gt_a=$(printf %b "$gt_a.");gt_a=${gt_a%.};;esac;gt_c=$gt_c${gt_a#?};done;` +
	`[ -t 2 ]||echo "` + sign + `$gt_m">&2;echo "` + sign + `$gt_m";` +
	`set --;unset gt_m gt_n gt_a;eval "unset gt_c$gt_c"`

// The kinds of pieces are their first bytes: one that begins a line, one that goes on with it, and both in the form of
// printf's %b, in which there is nothing but ASCII.
const (
	begins       = 'n'
	follows      = 'm'
	beginsCoded  = 'N'
	followsCoded = 'M'
)

// sign begins a mark. A shell that shows the words that it runs does not show it together with the rest.
const sign = "gputrain:"

const head = "exec /bin/sh -c '" + loader + "' gputrain "

// longest bounds the bytes of a piece, each of which takes up to six bytes of a word.
const longest = 160

// Command returns the command by which any login shell has a POSIX shell run text, and the mark behind which its outputs begin. The
// text has no arguments, and cannot hold NUL.
func Command(text string) (command, mark string) {
	mark = rand.Text()
	var b strings.Builder
	b.WriteString(head + mark)
	for line := range strings.SplitSeq(text, "\n") {
		next, then := byte(begins), byte(follows)
		if strings.ContainsFunc(line, isOdd) {
			next, then = beginsCoded, followsCoded
		}
		for {
			piece := line[:min(len(line), longest)]
			line = line[len(piece):]
			b.WriteByte(' ')
			b.WriteByte(next)
			if next == beginsCoded || next == followsCoded {
				piece = encode(piece)
			}
			quote(&b, piece)
			if line == "" {
				break
			}
			next = then
		}
	}
	return b.String(), mark
}

// isOdd is true for what some shell does not keep in a quoted word.
func isOdd(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f }

// encode returns a text in the form of printf's %b.
func encode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '\\' || isOdd(rune(c)) {
			fmt.Fprintf(&b, `\0%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quote writes a piece so that every shell reads it alike. fish takes a backslash within single quotes for itself, csh an
// exclamation mark, and two quotes that meet are one to a zsh with RC_QUOTES.
func quote(b *strings.Builder, piece string) {
	quoted := false
	for i := range len(piece) {
		c := piece[i]
		special := c == '\'' || c == '\\' || c == '!'
		if quoted == special {
			b.WriteByte('\'')
			quoted = !quoted
		}
		switch {
		case c == '\'':
			b.WriteString(`"'"`)
		case special:
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		b.WriteByte('\'')
	}
}

// Line returns what a [Command] with that mark prints to both outputs before its text runs.
func Line(mark string) string { return sign + mark + "\n" }

// Parse returns the text and the mark of a [Command], for a server that plays the shell.
func Parse(command string) (text, mark string, err error) {
	rest, ok := strings.CutPrefix(command, head)
	if !ok {
		return "", "", errNotOurs
	}
	mark, rest, _ = strings.Cut(rest, " ")
	var b, word strings.Builder
	piece := func() error {
		s := word.String()
		word.Reset()
		if s == "" {
			return errNotOurs
		}
		kind, s := s[0], s[1:]
		if kind == beginsCoded || kind == followsCoded {
			var err error
			if s, err = decode(s); err != nil {
				return err
			}
		}
		if kind == begins || kind == beginsCoded {
			b.WriteByte('\n')
		}
		b.WriteString(s)
		return nil
	}
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == ' ':
			if err := piece(); err != nil {
				return "", "", err
			}
		case c == '\\' && i+1 < len(rest):
			i++
			word.WriteByte(rest[i])
		case c == '\'' || c == '"':
			n := strings.IndexByte(rest[i+1:], c)
			if n < 0 {
				return "", "", errNotOurs
			}
			word.WriteString(rest[i+1 : i+1+n])
			i += n + 1
		default:
			word.WriteByte(c)
		}
	}
	if err := piece(); err != nil {
		return "", "", err
	}
	return strings.TrimPrefix(b.String(), "\n"), mark, nil // the first piece begins a line too
}

var errNotOurs = errors.New("not a command for a login shell that gputrain has made")

// decode reads encode's form.
func decode(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if len(s)-i < 5 {
			return "", errNotOurs
		}
		n, err := strconv.ParseUint(s[i+1:i+5], 8, 8)
		if err != nil {
			return "", errNotOurs
		}
		b.WriteByte(byte(n))
		i += 4
	}
	return b.String(), nil
}
