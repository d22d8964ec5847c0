package training

import (
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/rootcause"
)

// records are patterns of files in a share's scratch directory, in which torch and NCCL describe a failure.
var records = []string{attempt.OptionalMark + "nccl_trace_rank_*", attempt.OptionalMark + "torchrun/**/" + errorFile}

// errorFile is the name of the file that describes the exception that ended a process. torchrun has one written if torch's decorator
// record is on the program's main function.
const errorFile = "error.json"

// A longer file than mostRecord is not read: torchrun writes a few KiB.
const mostRecord = 1 << 20

// traceback returns the traceback of the process of a share that failed first, by its error file. It returns "" if there is none.
func traceback(o attempt.Outcome) string {
	var all []rootcause.ErrorFile
	for _, f := range o.Outputs {
		if path.Base(f.Name) != errorFile || f.Size > mostRecord {
			continue
		}
		data, err := os.ReadFile(filepath.Join(o.OutputDir, filepath.FromSlash(f.Name)))
		if e, ok := rootcause.ParseErrorFile(data); err == nil && ok && e.Traceback != "" {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b rootcause.ErrorFile) int { return a.At.Compare(b.At) }).Traceback
}
