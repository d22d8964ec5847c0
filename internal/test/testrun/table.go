package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// table is lists.txt.
//
//go:embed lists.txt
var table string

// A part is a run of go test, or a command, of one or more lists.
type part struct {
	name   string
	lists  []string
	beside string   // the last part that runs at the same time; empty means that the next part waits for this one
	env    []string // NAME=VALUE
	words  []string // the command's
}

// A slow package starts many processes, containers or servers.
type slow struct{ folder, smoke string }

// A lists holds what lists.txt says.
type lists struct {
	parts      []part
	slow       []slow
	pool, sdks []string // folders
	engine     []string // folders
	first      []string // folders
	many       []string // tests
}

// readLists reads the text of lists.txt.
func readLists(text string) (l lists, err error) {
	section := ""
	names := map[string]*[]string{"[first]": &l.first, "[pool]": &l.pool, "[engine]": &l.engine, "[sdks]": &l.sdks, "[many]": &l.many}
	for n, line := range strings.Split(text, "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		fields, err := words(line)
		if err != nil {
			return l, fmt.Errorf("lists.txt:%d: %w", n+1, err)
		}
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.TrimSpace(line)
		case section == "[parts]" && len(fields) > 3:
			p := part{name: fields[0], lists: strings.Split(fields[1], ","), words: fields[3:]}
			if fields[2] != "-" {
				p.beside = fields[2]
			}
			for len(p.words) > 1 && strings.Contains(p.words[0], "=") {
				p.env, p.words = append(p.env, p.words[0]), p.words[1:]
			}
			l.parts = append(l.parts, p)
		case section == "[processes]" && len(fields) == 2:
			l.slow = append(l.slow, slow{fields[0], fields[1]})
		case names[section] != nil && len(fields) == 1:
			*names[section] = append(*names[section], fields[0])
		default:
			return l, fmt.Errorf("lists.txt:%d: not a line of %s: %q", n+1, section, line)
		}
	}
	return l, nil
}

// words splits a command at blanks, outside of single quotes.
func words(line string) (all []string, err error) {
	var word strings.Builder
	quoted, open := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, open = !quoted, true
		case !quoted && (r == ' ' || r == '\t'):
			if open {
				all = append(all, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed: %s", line)
	}
	return all, nil
}

// of returns the parts of a list, without those that another list has, and only those with the given names, if there are any.
func (l lists) of(list, without string, names []string) (some []part, err error) {
	for _, p := range l.parts {
		left := without != "" && slices.Contains(p.lists, without)
		if slices.Contains(p.lists, list) && !left && (len(names) == 0 || slices.Contains(names, p.name)) {
			some = append(some, p)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(some, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("the list -%s has no part %q; lists.txt names them", list, name)
		}
	}
	return some, nil
}
