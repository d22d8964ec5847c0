package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// logFile is the log of the list deep, in the repository: a line for each part that ended, with the time, the commit, the part,
// how it ended and how long it took.
const logFile = "internal/test/testrun/deep.log"

// A deepLog says which parts of the list deep have passed, and on which commit.
type deepLog struct {
	file   string
	commit string                   // of the sources that are tested; with a + if they are not committed
	same   func(commit string) bool // reports whether the sources are as they were at a commit
}

// openLog returns the log of the module in the working folder.
func openLog() *deepLog {
	// What the log or a document says changes no test.
	const but = ":(exclude)" + logFile
	changed := func(commit string) bool {
		out, err := exec.Command("git", "diff", "--name-only", commit, "--", ".", but, ":(exclude)*.md").Output()
		added, _ := exec.Command("git", "ls-files", "-o", "--exclude-standard", "--", ".", but, ":(exclude)*.md").Output()
		return err != nil || len(out)+len(added) > 0
	}
	out, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	l := &deepLog{file: logFile, commit: strings.TrimSpace(string(out)), same: func(commit string) bool { return !changed(commit) }}
	if l.commit == "" || changed("HEAD") {
		l.commit += "+"
	}
	return l
}

// passed returns the last line that says that a part has passed on the sources as they are now, or an empty string.
func (l *deepLog) passed(part string) (line string) {
	f, err := os.Open(l.file)
	if err != nil {
		return ""
	}
	defer f.Close()
	same := map[string]bool{}
	for in := bufio.NewScanner(f); in.Scan(); {
		fields := strings.Fields(in.Text()) // date, time, UTC, commit, part, result, ...
		if len(fields) < 6 || fields[4] != part || strings.HasSuffix(fields[3], "+") {
			continue
		}
		commit := fields[3]
		if _, asked := same[commit]; !asked {
			same[commit] = l.same(commit)
		}
		if same[commit] {
			line = ""
			if fields[5] == "passed" {
				line = in.Text()
			}
		}
	}
	return line
}

// add adds a line.
func (l *deepLog) add(part, result string, took time.Duration, figures string) error {
	f, err := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %-9s %-10s %s %6s %s\n", time.Now().UTC().Format("2006-01-02 15:04:05 UTC"), l.commit, part, result, clock(took), figures)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
