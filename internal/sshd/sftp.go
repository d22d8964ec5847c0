package sshd

import (
	"fmt"

	"github.com/pkg/sftp"
)

// serveSFTP serves the SFTP subsystem. Relative paths are below the home directory. Absolute paths
// reach all files that the user may access, as with OpenSSH. One thing differs: pkg/sftp makes the
// target of a new symbolic link absolute.
func (sn *session) serveSFTP() {
	defer sn.ch.Close()
	server, err := sftp.NewServer(sn.ch, sftp.WithServerWorkingDirectory(sn.srv.cfg.Dir), sftp.WithMaxTxPacket(256<<10))
	if err == nil {
		err = server.Serve()
	}
	if err != nil {
		fmt.Fprintf(sn.ch.Stderr(), "sshd: sftp: %v\n", err)
		sn.exit(exit{code: 255})
		return
	}
	sn.exit(exit{})
}
