package ssh_test

import (
	"context"
	"fmt"

	"github.com/gputrain/gputrain/providers/ssh"
)

// Everything that is wrong is said before anything is contacted.
func ExampleConfig_Open() {
	_, err := ssh.Config{}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// ssh: open: invalid: no hosts; name at least one: ssh.Config{Hosts: []ssh.Host{{Addr: "gpu1.lab"}}}
}
