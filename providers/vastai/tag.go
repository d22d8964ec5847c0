package vastai

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// labels are the tags of instances and SSH keys: an instance's label and a key's comment. A
// label has room for 256 characters:
//
//	gputrain:<pool>:<node>:<rank>:<owner>:<lease>:<created>:<expires>:<until>
var labels = pooltag.LineForm{
	Prefix: "gputrain:", Separator: ":", Most: 256,
	Fields: []pooltag.Field{
		pooltag.Pool, pooltag.Node, pooltag.Rank, pooltag.Owner, pooltag.Lease, pooltag.Created, pooltag.Expires, pooltag.Until,
	},
}

// labelOf reads the label of an instance.
func labelOf(in instance) (pooltag.Tag, bool) {
	if in.Label == nil {
		return pooltag.Tag{}, false
	}
	return labels.Parse(*in.Label)
}

// key translates an SSH key, with the tag in its comment. A key with another comment has no
// name.
func (k sshKey) key() cloud.Key {
	key := cloud.Key{ID: strconv.FormatInt(k.ID, 10), Line: cmp.Or(k.PublicKey, k.Key)}
	if words := strings.Fields(key.Line); len(words) >= 3 {
		if t, ok := labels.Parse(words[2]); ok {
			key.Name, key.Tag = pooltag.SharedName(t.Pool), t
		}
	}
	return key
}
