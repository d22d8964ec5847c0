// Package groupname decides which tasks belong together by their names: "trial 7" and "trial 12" do, "lr-0.06" and "lr-0.01" do not.
package groupname

import (
	"regexp"
	"strings"
)

// separators are what may stand between a name and the number of a task.
const separators = " -_/#"

// Of returns the name of a task's group: the task's name without the number at its end that counts the tasks. The number is a word of
// digits alone, or follows letters alone. Digits that are a part of something longer are no such number, and then the group has
// the task's whole name: those of decimals, exponents, negative numbers, versions, dates, times, addresses and hashes.
func Of(name string) string {
	if whole.MatchString(name) {
		return name
	}
	rest := strings.TrimRight(name, "0123456789")
	group := strings.TrimRight(rest, separators+".")
	switch {
	case rest == name, group == "":
		return name
	case !counted.MatchString(rest):
		return name
	}
	return group
}

var (
	// counted matches what stands before a number that counts: a name and a separator, which is no minus sign, or a word of letters.
	// A dot is a separator only after a letter, and one letter alone is a word only if nothing stands before it and it is no "v" of a version.
	counted = regexp.MustCompile(`[^ \-_/#=:,(\[]-$|[ _/#]$|\pL\.$|(^|[ \-_/#.])\pL{2,}$|^[^\PLvV]$`)
	// whole matches names whose last digits are a part of an exponent, a date, a time, a range of days, an address, a UUID or
	// a hash.
	whole = regexp.MustCompile(`[0-9.][eE]-[0-9]+$` +
		`|(^|[^0-9])(19|20)[0-9]{2}([-_/. ]?)(0[1-9]|1[0-2])([-_/. ]?)(0[1-9]|[12][0-9]|3[01])([-_ ][0-9]{2}[-_]?[0-9]{2}([-_]?[0-9]{2})?)?$` +
		`|(?i:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$)` +
		`|(?i:(^|[^\pL0-9])([0-9]+[a-f]|[a-f]+[0-9]+[a-f])[0-9a-f]*$)` +
		`|(?i:(^|[^\pL0-9])[a-f]+[0-9a-f]{6,}$)`)
)
