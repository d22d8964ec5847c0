package private

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// overflowUID is the number that a user namespace shows for all users outside it, such as
// the owner of / in a sandbox. It is -1 if every user is shown.
var overflowUID = sync.OnceValue(func() int {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(users)), " ") == "0 0 4294967295" {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
})

// isUnmapped reports whether a file belongs to a user outside this user namespace.
func isUnmapped(uid uint32) bool { return int(uid) == overflowUID() }
