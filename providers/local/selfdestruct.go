package local

import (
	"strings"

	"github.com/gputrain/gputrain"
)

// selfDestruct ends the node whose ID is $1 and whose home is $2: what still
// runs there and is not above this script itself, then the home, with its
// directories made removable first. It outlives the program that made the node.
// It looks until it has found none twice: one that is becoming another program, or
// was started while it looked, is overlooked once. Where there is no /proc, as on
// macOS, it leaves processes to its caller.
//
// The name is one that any process can have: the node's are those with the token
// that this script has too, or, where it has none, those that this user started.
const selfDestruct = `
quiet=0 passes=0
while [ $quiet -lt 2 ] && [ $passes -lt 20 ]; do
	quiet=$((quiet+1)) passes=$((passes+1))
	for f in $(grep -lsF "` + nodeEnv + `=$1" /proc/[0-9]*/environ); do
		pid=${f#/proc/} pid=${pid%/environ}
		[ "$pid" != "$$" ] && [ "$pid" != "$PPID" ] || continue
		marks=$({ tr '\n\0' ' \n' <"$f" | while IFS= read -r v; do
			case $v in
			"` + nodeEnv + `=$1") echo node ;;
			"` + tokenEnv + `=$` + tokenEnv + `") echo token ;;
			esac
		done; } 2>/dev/null)
		case $marks in *node*) ;; *) continue ;; esac
		if [ -n "${` + tokenEnv + `-}" ]; then
			case $marks in *token*) ;; *) continue ;; esac
		else
			user=
			while read -r k v more; do [ "$k" = Uid: ] && user=$v; done <"/proc/$pid/status"
			[ "$user" = "$(id -u)" ] || continue
		fi 2>/dev/null
		kill -KILL "$pid" 2>/dev/null && quiet=0
	done
done
find "$2" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
cd / && rm -rf -- "$2"
`

// SelfDestruct returns a command that ends the node's processes and removes its
// home.
func (d *driver) SelfDestruct(in gputrain.Instance) string {
	if !validID(in.ID) {
		return ""
	}
	return "sh -c " + quote(selfDestruct) + " sh " + quote(in.ID) + " " + quote(homePath(d.dir, in.ID))
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
