package report

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// writeMarkdown writes a document as GitHub's Markdown. What a node or a provider says is nothing but text in it.
func writeMarkdown(w io.Writer, d *document) error {
	var b strings.Builder
	kind, pools, _ := strings.Cut(d.Title, ": ")
	if b.WriteString("# " + kind); pools != "" {
		b.WriteString(": " + inline(pools))
	}
	b.WriteString("\n\n")
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, inline(f.Value))
	}
	if d.Cause != nil {
		b.WriteString("\n## What failed first\n\n")
		for _, line := range d.Cause {
			fmt.Fprintf(&b, "- %s\n", inline(line))
		}
	}
	for _, s := range d.Sections {
		if s.Text == "" && !s.hasRows() && s.Outputs == nil {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		if s.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", s.Text)
		}
		for _, t := range s.Tables {
			if len(t.Rows) > 0 {
				t.markdown(&b)
			}
		}
		for _, p := range s.Outputs {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", inline(p.Title), fenced(p.text()))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// hasRows reports whether a section has a table that is not empty.
func (s section) hasRows() bool {
	for _, t := range s.Tables {
		if len(t.Rows) > 0 {
			return true
		}
	}
	return false
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n**%s**\n\n", t.Caption)
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + c + " ")
		}
		b.WriteString("|\n")
	}
	var names, rules []string
	for _, c := range t.Columns {
		rule := "---"
		if c.Number {
			rule = "---:"
		}
		names, rules = append(names, c.Name), append(rules, rule)
	}
	line(names)
	b.WriteString("| " + strings.Join(rules, " | ") + " |\n")
	for _, row := range t.all() {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = cell(row[i])
		}
		line(cells)
	}
}

// all returns the rows with the last ones.
func (t table) all() [][]string {
	rows := t.Rows[:len(t.Rows):len(t.Rows)]
	for _, last := range [][]string{t.More, t.Total} {
		if last != nil {
			rows = append(rows, last)
		}
	}
	return rows
}

// text returns the error and the last lines, as one text.
func (p printed) text() string {
	text := p.Err
	if len(p.Lines) > 0 {
		text += "\n\nLast lines:\n" + strings.Join(p.Lines, "\n")
	}
	return strings.Trim(text, "\n")
}

// plain matches a text of words and numbers, which Markdown, GitHub and GitLab show as it is. It may have no dot or bar between
// letters, as addresses and references to issues have, and no word that can be a commit.
var plain = regexp.MustCompile(`^(\(?(\$?[0-9]{1,6}([.:-][0-9]{1,6}){0,3}|[A-Za-z]+|([0-9]{1,4}[dhms]){1,3}|%)\)?[,;:]?( |$))*$`)

// commit matches what may be the beginning of a commit's hash.
var commit = regexp.MustCompile(`\b[0-9a-fA-F]{7,}\b`)

// listed matches what would begin a list.
var listed = regexp.MustCompile(`^[0-9]+\)`)

// inline returns a text in one line, from which nothing is made. What is not plain is code: in that Markdown has no links, images and
// HTML, and GitHub and GitLab find no addresses, names of people, issues and commits, emoji and formulas.
func inline(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if plain.MatchString(s) && !commit.MatchString(s) && !listed.MatchString(s) {
		return s
	}
	around := strings.Repeat("`", 1+backquotes(s))
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return around + s + around
}

// cell is inline for a table, where a bar ends a cell in code too unless one backslash is before it.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(inline(s), `\|`, `\ |`), "|", `\|`)
}

// backquotes returns how many backquotes a text has in a row.
func backquotes(s string) (longest int) {
	n := 0
	for i := range len(s) {
		if n++; s[i] != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

// fenced returns a block of code. Its fence is longer than any in the text.
func fenced(s string) string {
	fence := strings.Repeat("`", max(3, 1+backquotes(s)))
	return fence + "text\n" + s + "\n" + fence
}
