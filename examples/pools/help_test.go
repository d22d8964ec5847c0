package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Each help fits a terminal of 24 rows, with the prompt, and 80 columns.
func TestHelpFits(t *testing.T) {
	texts := map[string]string{"": pools(t, "help").out}
	for _, c := range commands() {
		s := pools(t, "help", c.name)
		s.wants(t, 0, "^usage: pools "+c.name, "^$")
		if other := pools(t, c.name, "-h"); other.out != s.out || other.code != 0 {
			t.Errorf("%s -h says something else:\n%s", c.name, other.out)
		}
		texts[c.name] = s.out
	}
	for name, text := range texts {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 23 {
			t.Errorf("help %s has %d lines", name, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 79 || strings.Contains(line, "\t") {
				t.Errorf("help %s has a line of %d columns: %s", name, n, line)
			}
		}
	}
	for _, c := range commands() {
		if !strings.Contains(texts[""], "\n  "+c.name+" ") {
			t.Errorf("help lacks %s", c.name)
		}
	}
	if s := pools(t, "-h"); s.out != texts[""] || s.code != 0 {
		t.Errorf("-h says %q", s.out)
	}
}

func TestWrongUsage(t *testing.T) {
	p := newPlace(t)
	for line, says := range map[string]string{
		"lst":                         `no command "lst"; there are list, nodes`,
		"help lst":                    `no command "lst"`,
		"list -colour":                `flag provided but not defined: -colour; "pools help list"`,
		"-colour":                     "not defined: -colour",
		"nodes":                       "usage: pools nodes .FLAGS. POOL",
		"nodes a b":                   "usage: pools nodes",
		"logs a":                      "usage: pools logs .FLAGS. POOL JOB",
		"shell a first":               `"first" is no rank`,
		"shell a -- -1":               `"-1" is no rank`,
		"end":                         "usage: pools end",
		"end all":                     "usage: pools end job POOL JOB",
		"end pool":                    "usage: pools end job POOL JOB",
		"list acme":                   `there is no provider "acme"; there are `,
		"list local=dir":              "the settings of local are not JSON",
		`list local={"folder":"x"}`:   `there is no setting "folder"`,
		"plan -gpu A100:-1 local":     "-gpu: ",
		"plan -spot -on-demand local": "exclude each other",
		"gpus -n -1 local":            "-n is negative",
	} {
		pools(t, append(strings.Fields(line), "-state", p.state)[:len(strings.Fields(line))]...).wants(t, 2, "^$", "^pools: .*"+says)
	}
}
