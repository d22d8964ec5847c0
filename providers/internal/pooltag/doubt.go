package pooltag

import (
	"fmt"
	"time"
)

const (
	// Two computers' clocks may be clockSkew apart.
	clockSkew = 5 * time.Minute
	// A tag is written just before the call that makes its machine, which is made within latest.
	latest = time.Hour
)

// Doubt returns why a machine with this tag may be a stranger's, or "": its cloud's own name for it is not that of the
// node, or it was not made when the tag says. A cloud that has no name beside its tags, or reports no time, has "" and zero.
func (t Tag) Doubt(name string, made time.Time) string {
	named := FromName(name)
	if named.Pool == "" { // at some clouds it is the node's alone
		named = FromName(Prefix + name)
	}
	switch {
	case t.Pool == "":
		return ""
	case name != "" && (named.Pool != t.Pool || named.Name != t.Name):
		return fmt.Sprintf("the provider calls it %q, and its tag names node %q", name, t.Name)
	case made.IsZero() || t.Created.IsZero():
		return ""
	case made.Before(t.Created.Add(-clockSkew)), made.After(t.Created.Add(latest)):
		return fmt.Sprintf("the provider made it at %s, and its tag is of %s", made.UTC().Format(time.RFC3339), t.Created.UTC().Format(time.RFC3339))
	}
	return ""
}

// Is reports whether a found tag is that of the machine for which t was written: that of the same node, by the same program, and
// not from before.
func (t Tag) Is(found Tag) bool {
	return found.Pool == t.Pool && found.Name == t.Name && (found.Owner == "" || found.Owner == t.Owner) &&
		(found.Created.IsZero() || !found.Created.Before(t.Created.Add(-clockSkew)))
}
