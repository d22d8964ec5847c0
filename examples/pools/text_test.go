package main

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 42 * time.Second: "42s", 5*time.Minute + 10*time.Second: "5m10s", 2*time.Hour + 10*time.Minute: "2h10m", 76 * time.Hour: "3d4h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for p, want := range map[gputrain.Price]string{driver.USD(0.71): "$0.71/h", driver.USD(0.009): "$0.009/h", driver.USD(0): "$0.00/h", {}: "unknown"} {
		if got := perHour(p); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
	}
	if got := spent(1.5, 2); got != "$1.50 and 2 unknown" {
		t.Error(got)
	}
	if got := since(time.Time{}, time.Now()); got != "unknown" {
		t.Error(got)
	}
	if got := clean("a\x1b[2J\n\u202eb\u009bc\t d"); got != "a[2J bc d" {
		t.Errorf("%q", got)
	}
}

// What a provider says cannot add rows or columns to a table, nor control the terminal.
func TestTableOfHostileTexts(t *testing.T) {
	var tab table
	var out bytes.Buffer
	tab.add("A", "B")
	tab.add("x\ty\n\x1b[31mz", "")
	if err := tab.print(&out); err != nil || out.String() != "A          B\nx y [31mz  -\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args, want []string
		yes        bool
	}{
		{[]string{"a", "-yes", "b"}, []string{"a", "b"}, true},
		{[]string{"-yes", "a", "b"}, []string{"a", "b"}, true},
		{[]string{"a", "b", "--yes"}, []string{"a", "b"}, true},
		{[]string{"a", "--", "-yes", "b"}, []string{"a", "-yes", "b"}, false},
		{nil, nil, false},
	} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		yes := flags.Bool("yes", false, "")
		got, err := parse(flags, tt.args)
		if err != nil || !slices.Equal(got, tt.want) || *yes != tt.yes {
			t.Errorf("%q: %q, %v, %v", tt.args, got, *yes, err)
		}
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(new(bytes.Buffer))
	if _, err := parse(flags, []string{"a", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
}
