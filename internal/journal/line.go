package journal

import (
	"bytes"
	"math"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/record"
)

// A kind is the kind of a line of a journal.
type kind string

const (
	poolLine      kind = "pool"   // header, the first line
	nodeLine      kind = "node"   // nodeForm
	uploadLine    kind = "upload" // Upload
	locationLine  kind = "where"  // Location
	tasksLine     kind = "tasks"  // Batch
	retryLine     kind = "retry"  // Tries
	resultLine    kind = "result" // Outcome
	deliveredLine kind = "handed" // ids of tasks
	trainingLine  kind = "train"  // Training
)

const headStart, headEnd = `{"is":"`, `"}`

var heads = func() map[kind][]byte {
	heads := map[kind][]byte{}
	for _, k := range []kind{poolLine, nodeLine, uploadLine, locationLine, tasksLine, retryLine, resultLine, deliveredLine, trainingLine} {
		heads[k] = []byte(headStart + string(k) + headEnd)
	}
	return heads
}()

func newLine(k kind, v any) (record.Record, error) {
	body, err := cbor.Marshal(v)
	return record.Record{Head: heads[k], Body: body}, err
}

// kindOf returns the kind of a line.
func kindOf(r record.Record) kind {
	head, _ := bytes.CutPrefix(r.Head, []byte(headStart))
	head, _ = bytes.CutSuffix(head, []byte(headEnd))
	return kind(head)
}

// unmarshal decodes the body of a line. Strings in it may be any bytes, as arguments are.
var unmarshal = func() func([]byte, any) error {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode.Unmarshal
}()
