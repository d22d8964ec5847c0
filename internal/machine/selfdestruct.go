package machine

// SelfDestruct returns a shell command that ends a machine from within, when no program is
// there any more to do it: it kills what has the mark and is not above the command itself,
// then removes the home, with its folders made removable first.
//
// before, mark and home are shell text, in which $1 and so on are args; mark is a variable as
// Config.Mark is. token names a variable, or is empty. If the command's own environment has
// it, a process is the machine's by having it with the same value; else by the user that
// started it.
//
// The command looks until it has found none twice: one that is becoming another program, or
// was started while it looked, is overlooked once. If there is no /proc, as on macOS, it
// leaves processes to its caller.
func SelfDestruct(before, mark, token, home string, args ...string) string {
	seesToken, decides := "", "\n\t\t{"+startedByUser+"\n\t\t} 2>/dev/null"
	if token != "" {
		seesToken = `
			"` + token + `=$` + token + `") echo token ;;`
		decides = `
		if [ -n "${` + token + `-}" ]; then
			case $marks in *token*) ;; *) continue ;; esac
		else` + startedByUser + `
		fi 2>/dev/null`
	}
	text := before + `
quiet=0 passes=0
while [ $quiet -lt 2 ] && [ $passes -lt 20 ]; do
	quiet=$((quiet+1)) passes=$((passes+1))
	for f in $(grep -lsF "` + mark + `" /proc/[0-9]*/environ); do
		pid=${f#/proc/} pid=${pid%/environ}
		[ "$pid" != "$$" ] && [ "$pid" != "$PPID" ] || continue
		marks=$({ tr '\n\0' ' \n' <"$f" | while IFS= read -r v; do
			case $v in
			"` + mark + `") echo node ;;` + seesToken + `
			esac
		done; } 2>/dev/null)
		case $marks in *node*) ;; *) continue ;; esac` + decides + `
		kill -KILL "$pid" 2>/dev/null && quiet=0
	done
done
find "` + home + `" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
cd / && rm -rf -- "` + home + `"
`
	command := "sh -c " + quote(text) + " sh"
	for _, arg := range args {
		command += " " + quote(arg)
	}
	return command
}

// startedByUser goes on with the next process unless this user has started this one.
const startedByUser = `
			user=
			while read -r k v more; do [ "$k" = Uid: ] && user=$v; done <"/proc/$pid/status"
			[ "$user" = "$(id -u)" ] || continue`
