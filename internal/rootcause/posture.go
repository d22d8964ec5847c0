package rootcause

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A stance is what a process was doing, as far as it tells who waits for whom.
type stance int

const (
	unclear stance = iota
	waits          // for its peers, or for something else outside
	works          // it runs, sleeps, or waits for its disk: for nothing that a peer does
	stopped        // by a signal or a debugger
)

// A posture is what a process was doing.
type posture struct {
	stance stance
	// at is where: a function of the kernel, or the innermost frame of Python. Processes that wait for each other are mostly at
	// the same place.
	at string
	// python means that py-spy has told it.
	python bool
}

// A section is the part of a stack's text that is about one process, as package stacks writes it.
type section struct {
	pid, parent int
	rank        int // -1 if it is not told
	name, text  string
}

var (
	heading     = regexp.MustCompile(`(?m)^process (\d{1,9}) \((.*?)\)(?: of rank (\d{1,9}))?(?:, child of (\d{1,9}))?$`)
	stateLine   = regexp.MustCompile(`(?m)^State:\s*([A-Za-z])`)
	threadLine  = regexp.MustCompile(`(?m)^  thread (\d+) \(.*\) in (.+)$`)
	mainThread  = regexp.MustCompile(`(?m)^Thread .*"MainThread".*\n\s*(.+)$`)
	frameOfPy   = regexp.MustCompile(`\S+ \(\S*:\d+\)`)
	pythonNames = regexp.MustCompile(`(?i)python|^pt_main`)
	// waitsIn are functions of the kernel in which a process waits for another one's message, lock or end.
	waitsIn = regexp.MustCompile(`futex|poll|^ep_|select|wait_woken|sk_wait|skb_wait|unix_stream|inet_csk|accept|recv|pipe_|wait_for_partner|sigtimedwait|sigsuspend|locks_lock|flock`)
)

// sections splits a text. What is before the first heading, or all of a text without one, is a section too.
func sections(text string) (all []section) {
	marks := heading.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		return []section{{rank: -1, text: text}}
	}
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		s := section{pid: number(group(1)), name: group(2), rank: -1, parent: number(group(4)), text: text[m[1]:end]}
		if rank := group(3); rank != "" {
			s.rank = number(rank)
		}
		all = append(all, s)
	}
	return all
}

// postureOf returns what the process of a rank was doing, from the text about all processes of its share. alone means that
// the share has no other rank.
func postureOf(text string, rank int, alone bool) posture {
	if strings.TrimSpace(text) == "" {
		return posture{}
	}
	all := sections(text)
	if mine := slices.DeleteFunc(slices.Clone(all), func(s section) bool { return s.rank != rank }); len(mine) > 0 || !alone {
		all = mine
	}
	for _, s := range all {
		if state := s.state(); state == "T" || state == "t" {
			return posture{stance: stopped, at: "state " + state}
		}
	}
	// Shells and launchers wait for the end of what they have started.
	all = slices.DeleteFunc(all, func(s section) bool { return s.state() == "Z" || strings.HasPrefix(s.place(), "do_wait") })
	if python := slices.DeleteFunc(slices.Clone(all), func(s section) bool { return !pythonNames.MatchString(s.name) }); len(python) > 0 {
		all = python
	}
	for _, s := range all { // the first that none of the others has started: those are its helpers
		if !slices.ContainsFunc(all, func(other section) bool { return other.pid == s.parent && other.pid != s.pid }) {
			return s.posture()
		}
	}
	return posture{}
}

func (s *section) state() string {
	if m := stateLine.FindStringSubmatch(s.text); m != nil {
		return m[1]
	}
	return ""
}

// place returns the function of the kernel in which the process's first thread is, or "".
func (s *section) place() string {
	for _, m := range threadLine.FindAllStringSubmatch(s.text, -1) {
		if m[1] == strconv.Itoa(s.pid) {
			return strings.TrimSpace(m[2])
		}
	}
	return ""
}

// hasAccelerator reports whether the process uses one. Libraries of accelerators wait for peers without ever sleeping.
func (s *section) hasAccelerator() bool { return strings.Contains(s.text, "\n  uses an accelerator") }

func (s *section) posture() posture {
	state, place := s.state(), s.place()
	switch {
	case state == "" && InCollective(s.text):
		return posture{stance: waits, at: "a collective", python: true}
	case state == "":
		if m := mainThread.FindStringSubmatch(s.text); m != nil {
			return posture{stance: works, at: strings.TrimSpace(m[1]), python: true}
		}
		if frame := frameOfPy.FindString(s.text); frame != "" {
			return posture{stance: works, at: frame, python: true}
		}
		return posture{}
	case state == "R" && s.hasAccelerator():
		return posture{stance: waits, at: "no system call"}
	case state == "R":
		return posture{stance: works, at: "no system call"}
	case state == "D":
		return posture{stance: works, at: place + " (state D)"}
	case strings.Contains(place, "nanosleep"):
		return posture{stance: works, at: place}
	case waitsIn.MatchString(place):
		return posture{stance: waits, at: place}
	}
	return posture{at: place}
}

// oddOnes returns those of some processes that do not do what the others do, and why they are the ones that are waited for, or
// nil if that cannot be told. Some postures may not be known.
func oddOnes(left []process) (odd func(process) bool, reason string) {
	places, doing := map[string]int{}, map[stance]int{}
	told, python := 0, 0
	for _, p := range left {
		if p.posture.at == "" {
			continue
		}
		told++
		places[p.posture.at]++
		doing[p.posture.stance]++
		if p.posture.python {
			python++
		}
	}
	most := ""
	for at, n := range places {
		if most == "" || n > places[most] || n == places[most] && at < most {
			most = at
		}
	}
	describe := func(odd func(process) bool) string {
		if python == told {
			return "the others were in a collective"
		}
		for _, p := range left {
			if odd(p) {
				return fmt.Sprintf("it was in %s, the others in %s", p.posture.at, otherPlace(left, odd))
			}
		}
		return ""
	}
	isAt := func(s stance) func(process) bool {
		return func(p process) bool { return p.posture.stance == s && p.posture.at != "" }
	}
	switch a, b := doing[works], doing[waits]; {
	case a > 0 && b > 0 && (a <= b || python == told):
		odd = isAt(works)
	case a > 2 && b == 1: // they look for something again and again, and the one waits for something else
		odd = isAt(waits)
	case a > 0 && b > 0:
		return nil, ""
	case told > 2 && (python == 0 || python == told) && 2*places[most] > told:
		odd = func(p process) bool { return p.posture.at != "" && p.posture.at != most }
		if python == told {
			for _, p := range left {
				if odd(p) {
					return odd, fmt.Sprintf("it was in %s, the others in %s", p.posture.at, most)
				}
			}
		}
	default:
		return nil, ""
	}
	return odd, describe(odd)
}

// otherPlace returns where the first process is that is not odd.
func otherPlace(left []process, odd func(process) bool) string {
	for _, p := range left {
		if p.posture.at != "" && !odd(p) {
			return p.posture.at
		}
	}
	return "another place"
}
