package hostile

import "strings"

// A Kind is the purpose of a session.
type Kind string

const (
	Control  Kind = "control"  // the supervisor's session
	Worker   Kind = "worker"   // the connection to a worker that serves functions
	Download Kind = "download" // a file or a folder, as an archive
	Find     Kind = "find"     // the names of the files that match patterns
	Fetch    Kind = "fetch"    // files, as an archive, with their checksums
	Upload   Kind = "upload"   // files or folders to the node
	SFTP     Kind = "sftp"
	Other    Kind = "other" // any other command
)

// Kinds are all kinds.
var Kinds = []Kind{Control, Worker, Download, Find, Fetch, Upload, SFTP, Other}

// marks are texts that identify the commands of a kind. TestKinds checks that each kind occurs.
var marks = []struct {
	text string
	kind Kind
}{
	{"GPUTRAIN_WORKER=", Worker},
	{"exec sh -c 'export GPUTRAIN_POOL=", Control},
	{"exec env GPUTRAIN_POOL=", Control},
	{"echo folder", Download},
	{"list() (", Find},
	{`"$d" || exit 1` + "\nset -- ", Fetch},
	{"trap '\\''rm -rf", Upload},
}

// kindOf returns a command's kind by its text.
func kindOf(command string) Kind {
	for _, m := range marks {
		if strings.Contains(command, m.text) {
			return m.kind
		}
	}
	return Other
}
