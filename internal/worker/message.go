package worker

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// protocolVersion changes with everything that an older side would not
// understand. Client and node are the same program, so there is no need to
// speak two; the check is for programs that were mixed up.
const protocolVersion = 1

const (
	// helloMagic and the version after it start every hello, in every version,
	// and so does the shape of a rejection stay.
	helloMagic = "gputrain"
	// nodePreamble comes before the node's first frame. What comes before it,
	// such as text printed by a package's init or a login script, is skipped.
	nodePreamble = "\x00\x01gputrain-worker\x01\x00"
)

// hello is what a client says first.
type hello struct {
	Digest     string
	Functions  []string
	Generation uint64
	// Client is random, made by Dial; Attempt counts its connections.
	Client  string
	Attempt uint64
	// Open are the calls that the client waits for.
	Open []uint64
}

// welcome is the daemon's answer.
type welcome struct {
	// Instance is random, made by each daemon's process.
	Instance  string
	PID       int
	Functions []string
	// Known are those of hello.Open that the daemon has.
	Known []uint64
}

// rejection is the other answer.
type rejection struct {
	Code    rejectCode
	Message string
}

type rejectCode string

const (
	rejectProtocol  rejectCode = "protocol"
	rejectBinary    rejectCode = "binary"
	rejectFunctions rejectCode = "functions"
	rejectFenced    rejectCode = "fenced"
	rejectGone      rejectCode = "gone" // from the attach process
)

// err returns the rejection as the client's user sees it.
func (r rejection) err() error {
	kind := map[rejectCode]error{
		rejectBinary: ErrBinary, rejectFunctions: ErrUnknownFunction, rejectFenced: ErrFenced, rejectGone: ErrWorkerLost,
	}[r.Code]
	if kind == nil {
		kind = ErrProtocol
	}
	return fmt.Errorf("%w: %.2000s", kind, r.Message)
}

// callHeader opens a call.
type callHeader struct {
	_        struct{} `cbor:",toarray"`
	Function string
	Size     uint64
	Timeout  time.Duration
	Grace    time.Duration
	Meta     Meta
}

// resultHeader opens a result.
type resultHeader struct {
	_     struct{} `cbor:",toarray"`
	Size  uint64
	Error *wireError
}

var wire = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
		UTF8:        cbor.UTF8DecodeInvalid, // error messages may hold anything
		// A payload is bounded already, and may be full of call ids.
		MaxArrayElements: maxPayload,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

// encodeWire encodes what this package alone defines.
func encodeWire(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(err) // none of the types above can fail
	}
	return b
}

func decodeWire(b []byte, v any) error {
	if err := wire.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// opening returns the start of a call's or a result's payload: the header with
// its length before it. The body follows.
func opening(header any) []byte {
	b := encodeWire(header)
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)
}

// splitOpening undoes opening.
func splitOpening(payload []byte, header any) (body []byte, err error) {
	if len(payload) < 4 {
		return nil, fmt.Errorf("%w: %d bytes are no header", ErrProtocol, len(payload))
	}
	n, rest := binary.BigEndian.Uint32(payload), payload[4:]
	if uint64(n) > uint64(len(rest)) {
		return nil, fmt.Errorf("%w: a header of %d bytes has %d", ErrProtocol, n, len(rest))
	}
	return rest[n:], decodeWire(rest[:n], header)
}

func encodeHello(h hello) []byte {
	b := binary.BigEndian.AppendUint32([]byte(helloMagic), protocolVersion)
	return append(b, encodeWire(h)...)
}

// decodeHello also returns the version, which it can do for every version.
func decodeHello(b []byte) (h hello, version uint32, err error) {
	const prefix = len(helloMagic) + 4
	if len(b) < prefix || string(b[:len(helloMagic)]) != helloMagic {
		return h, 0, fmt.Errorf("%w: the first frame is no hello", ErrProtocol)
	}
	version = binary.BigEndian.Uint32(b[len(helloMagic):])
	if version != protocolVersion {
		return h, version, fmt.Errorf("%w: the client speaks version %d and the node version %d; both must be built from the same gputrain", ErrProtocol, version, protocolVersion)
	}
	return h, version, decodeWire(b[prefix:], &h)
}
