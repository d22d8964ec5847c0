package gcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/gputrain/gputrain/internal/launches"
)

// second is what waiting is counted in. Tests have a shorter one.
var second = time.Second

// An operationError is an operation that has failed. Nothing is left of what it made.
type operationError struct {
	name   string
	status int // as the call would have had it; zero where that is not told
	errors []operationFault
}

// An operationFault is one of the reasons. The first may be a summary only.
type operationFault struct {
	code, message string
	reasons       []string
}

func (e *operationError) Error() string {
	var said []string
	for _, f := range e.errors {
		said = append(said, f.code+": "+f.message)
	}
	return fmt.Sprintf("operation %s: %s", e.name, strings.Join(said, "; "))
}

// failed returns why an operation has failed, or nil. Google's client looks at the status
// alone, which may be missing.
func failed(op *computepb.Operation) error {
	status := int(op.GetHttpErrorStatusCode())
	if op.GetError() == nil && status < 400 {
		return nil
	}
	e := &operationError{name: op.GetName(), status: status}
	for _, f := range op.GetError().GetErrors() {
		fault := operationFault{code: f.GetCode(), message: f.GetMessage()}
		for _, detail := range f.GetErrorDetails() {
			if info := detail.GetErrorInfo(); info != nil {
				fault.reasons = append(fault.reasons, info.GetReason())
			}
			if quota := detail.GetQuotaInfo(); quota != nil {
				fault.message += fmt.Sprintf(" (%s, limit %v)", quota.GetMetricName(), quota.GetLimit())
			}
		}
		e.errors = append(e.errors, fault)
	}
	if len(e.errors) == 0 {
		e.errors = []operationFault{{code: fmt.Sprint(status), message: op.GetHttpErrorMessage()}}
	}
	return e
}

// await waits until an operation is done, and returns how it ended. The error of one that
// is not done in time is ctx's.
func (c *client) await(ctx context.Context, op *computepb.Operation) error {
	for wait := second / 2; ; wait = min(2*wait, 3*second) {
		if op.GetStatus() == computepb.Operation_DONE {
			return failed(op)
		}
		if !launches.Pause(ctx, wait) {
			return context.Cause(ctx)
		}
		now, err := c.poll(ctx, op)
		if err != nil {
			return err
		}
		op = now
	}
}

// uuid returns a request ID for a text: the same for the same text.
func uuid(of string) string {
	b := sha256.Sum256([]byte(of))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // as one of random bytes
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
