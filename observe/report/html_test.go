package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// checkHTML checks that a report is well-formed, refers to nothing, runs nothing, and has figures that can be drawn.
func checkHTML(t *testing.T, text string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = true
	allowed := strings.Fields("html head meta title style body header h1 dl div dt dd main section h2 p figure svg desc g rect path text table caption thead tbody tfoot tr th td details summary pre")
	var open []string
	svgs, titles := 0, 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("not well-formed: %v", err)
			return
		}
		switch el := token.(type) {
		case xml.StartElement:
			name := el.Name.Local
			if !slices.Contains(allowed, name) {
				t.Errorf("there is an element %q", name)
			}
			if name == "svg" {
				svgs++
			}
			if name == "title" && len(open) > 0 && open[len(open)-1] == "svg" {
				titles++
			}
			for _, a := range el.Attr {
				checkAttribute(t, name, a)
			}
			open = append(open, name)
		case xml.CharData:
			if len(open) > 0 && open[len(open)-1] == "style" && (strings.Contains(string(el), "url") || strings.Contains(string(el), "@import")) {
				t.Error("the style sheet loads something")
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
	if svgs != titles {
		t.Errorf("%d figures have %d titles", svgs, titles)
	}
}

var numbers = regexp.MustCompile(`-?[0-9.]+`)

func checkAttribute(t *testing.T, element string, a xml.Attr) {
	t.Helper()
	name := a.Name.Local
	if strings.HasPrefix(name, "on") || slices.Contains([]string{"style", "src", "href", "xlink", "action", "data", "background"}, name) || strings.Contains(a.Value, "//") {
		t.Errorf("%s has an attribute %s", element, name)
	}
	if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
		t.Errorf("%s has %s=%q", element, name, a.Value)
	}
	if element == "rect" && (name == "width" || name == "height") {
		if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < 0 || v > figureWidth {
			t.Errorf("a rect has %s=%q", name, a.Value)
		}
	}
	if element == "path" && name == "d" {
		for _, n := range numbers.FindAllString(a.Value, -1) {
			if v, err := strconv.ParseFloat(n, 64); err != nil || math.Abs(v) > 5000 {
				t.Errorf("a path has %q in %q", n, a.Value)
			}
		}
	}
}

func TestHTML(t *testing.T) {
	html := written(t, WriteHTML, sampleRun())
	checkHTML(t, html)
	for _, want := range []string{
		"<caption>Cost by node</caption>", "<caption>Cost by task name</caption>", "<caption>Cost by state</caption>", "Timeline of the nodes", "Cost over time", "Use of the nodes over time",
		"ValueError: shapes do not match", "no capacity: none left in us-1", "the provider takes the machine back", "the node was lost or failed", "prefers-color-scheme: dark", "@media print", "attempt 2",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestEmptyRun(t *testing.T) {
	html := written(t, WriteHTML, observe.Run{})
	checkHTML(t, html)
	md := written(t, WriteMarkdown, observe.Run{})
	if !strings.Contains(html, "nothing") || !strings.Contains(md, "Recorded: nothing") {
		t.Errorf("%s\n%s", html, md)
	}
}

func TestLargeRunStaysSmall(t *testing.T) {
	html := written(t, WriteHTML, largeRun())
	checkHTML(t, html)
	if len(html) > 2<<20 {
		t.Errorf("the report has %d bytes", len(html))
	}
	for _, want := range []string{"and 440 more nodes", "<th scope=\"row\">and 400 more</th>", "<th scope=\"row\">and 3234 more</th>"} {
		if !strings.Contains(html, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

// Bars that are narrower than a pixel are merged, and so a busy row takes no more space than its pixels.
func TestNarrowBarsAreMerged(t *testing.T) {
	run := observe.Run{Began: t0, At: at(24 * time.Hour), Seq: 1}
	run.Nodes = []observe.Node{{Key: key(0), Pool: pool, State: "ready", Launched: t0, ReadyAt: t0}}
	for i := range 50_000 {
		began := at(time.Duration(i) * time.Second)
		run.Tasks = append(run.Tasks, observe.Task{Pool: pool, ID: strconv.Itoa(i), State: "done", Node: key(0), Started: began, Ended: began.Add(time.Second)})
	}
	rows, _ := summarize(run).timelineRows(timeScale{run.Began, run.At})
	if n := len(rows[0].bars); n != 1 {
		t.Errorf("there are %d bars", n)
	}
	if b := rows[0].bars[0]; b.n != 50_000 || !strings.Contains(b.text(), "and 49999 more") || b.width < 500 {
		t.Errorf("%+v", b)
	}
}

// hostile are texts that a node or a provider may send.
var hostile = []string{"<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "\u009b2Jx", "a|b`c`*d*", "\"><img src=x onerror=y>", "\u202eevil", "]]>&amp;<!--", "\x00\xff\ufffe", "line\nline\r\n</pre>", "](http" + "://x)"}

// hostileRun has such texts everywhere.
func hostileRun() observe.Run {
	run := sampleRun()
	all := strings.Join(hostile, " ")
	for i := range run.Nodes {
		n := &run.Nodes[i]
		n.Provider, n.Region, n.InstanceType, n.Err, n.Key, n.State = all, all, all, all, n.Key+all, "lost"+all
	}
	for i := range run.Phases {
		p := &run.Phases[i]
		p.Name, p.Err, p.Node, p.State = all, all, p.Node+all, "failed"
		p.Lines = printedLines(true, hostile...)
	}
	for i := range run.Tasks {
		task := &run.Tasks[i]
		task.ID, task.Name, task.Err, task.Cause, task.Lines = task.ID+all, all, all, all, printedLines(false, hostile...)
		task.Attempts = slices.Clone(task.Attempts)
		for j := range task.Attempts {
			task.Attempts[j].Err, task.Attempts[j].Cause, task.Attempts[j].Node = all, all, task.Attempts[j].Node+all
		}
	}
	for i := range run.Failures {
		f := &run.Failures[i]
		f.Err, f.Name, f.Cause, f.Node, f.Phase, f.Tail, f.Stack = all, all, all, f.Node+all, all, all, all
		if f.Task != "" {
			f.Task += all
		}
	}
	for i := range run.Offers {
		o := &run.Offers[i]
		o.Provider, o.InstanceType, o.Region, o.State, o.Err = all, all, all, all, all
	}
	run.Pools[0].Err, run.Pools[0].State = all, all
	return run
}

// checkControls checks that a text cannot control a terminal.
func checkControls(t *testing.T, name, text string) {
	t.Helper()
	for i, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
			t.Errorf("%s has %U in %q", name, r, text[max(0, i-40):min(len(text), i+40)])
			return
		}
	}
}

func TestHostileTexts(t *testing.T) {
	run := hostileRun()
	html := written(t, WriteHTML, run)
	checkHTML(t, html)
	checkControls(t, "HTML", html)
	if strings.Contains(html, "<script") || strings.Contains(html, "<img") || !strings.Contains(html, "&lt;script&gt;") {
		t.Error("HTML is not escaped")
	}
	md := written(t, WriteMarkdown, run)
	checkControls(t, "Markdown", md)
	checkMarkdown(t, md)
	checkControls(t, "JSON", written(t, WriteJSON, run))
}

// checkMarkdown checks that GitHub's Markdown makes nothing but a report out of a text: no link, image, HTML, mention, reference,
// formula or emoji, and no cell, heading or list that is not the report's own.
func checkMarkdown(t *testing.T, md string) {
	t.Helper()
	fence, columns := "", 0
	for line := range strings.SplitSeq(md, "\n") {
		switch {
		case fence != "":
			if line == fence {
				fence = ""
			}
			continue
		case strings.HasPrefix(line, "```"):
			fence = strings.TrimSuffix(line, "text")
			continue
		}
		cells := []string{line}
		if strings.HasPrefix(line, "|") {
			cells = cellsOf(line)
			if columns != 0 && len(cells) != columns {
				t.Errorf("a row has %d cells, and the table %d: %q", len(cells), columns, line)
			}
			columns = len(cells)
		} else {
			columns = 0
		}
		for _, c := range cells {
			rest := withoutCode(strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(c, "- "), "#"), "# "))
			if made := regexp.MustCompile("[<>@#~^&!`\\\\_*\\[\\]]|:[a-z_]+:|(?i)www\\.|://|[a-z]\\.[a-z]|[A-Z]-[0-9]|[0-9a-f]{7}|^[-+] |^[0-9]+[.)]").FindString(strings.ReplaceAll(strings.TrimSpace(rest), "**", "")); made != "" && rest != " --- " && rest != " ---: " {
				t.Errorf("%q makes something of %q", made, line)
			}
		}
	}
	if fence != "" {
		t.Error("a block of code does not end")
	}
}

// cellsOf divides a row of a table as GitHub does, also within code.
func cellsOf(line string) (cells []string) {
	cell := ""
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			if cell += line[i : i+2]; line[i+1] == '|' {
				cell = cell[:len(cell)-2] + "|"
			}
			i++
		case line[i] == '|':
			cells, cell = append(cells, cell), ""
		default:
			cell += line[i : i+1]
		}
	}
	return cells
}

// withoutCode removes code as CommonMark finds it: between runs of as many backquotes.
func withoutCode(s string) string {
	runs := regexp.MustCompile("`+")
	for {
		first := runs.FindStringIndex(s)
		if first == nil {
			return s
		}
		end := -1
		for _, next := range runs.FindAllStringIndex(s[first[1]:], -1) {
			if next[1]-next[0] == first[1]-first[0] {
				end = first[1] + next[1]
				break
			}
		}
		if end < 0 {
			return s
		}
		s = s[:first[0]] + "x" + s[end:]
	}
}

// What a node says is text alone, in every text of a run, wherever Markdown has it.
func TestMarkdownMakesNothingOfTexts(t *testing.T) {
	for _, text := range []string{
		"@joe and @org/team", "see #12, GH-12, org/repo#12, !34, &56, %78, ABC-123", "commit 0123456789abcdef0123456789abcdef01234567 or deadbee", "www.evil.example", "http" + "://evil.example/x", "ftp://evil.example",
		"joe@evil.example", "mailto:joe@evil.example", "![x](http://e/x.png)", "[x]: http://e", "<img src=x>", "<!-- x", "`code` ``and`` ```more```", "a | b \\| c \\\\| d \\", "\\`x\\`@joe", "`@joe", "@joe`", "``|`@joe",
		"$x$ and $`y`$", ":tada: :+1:", "~~x~~ **y** _z_", "- x", "1. x", "1) x", "> x", "# x", "    x", "```\n@joe\n```", "[^1]", "&#64;joe", "@joe", "e\u200b@joe", "{{ x }}", "[[x]]", "[vulnerability:1] ~bug %12 $3 *iteration:1",
	} {
		run := filled(t, text)
		md := written(t, WriteMarkdown, run)
		checkMarkdown(t, md)
		if t.Failed() {
			t.Fatalf("of %q", text)
		}
	}
	if md := written(t, WriteMarkdown, filled(t, "a plain text of (some) words, 12 of them")); strings.Contains(md, "`a plain") {
		t.Error("plain text is code")
	}
}
