package gcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// second is the unit of all waiting. Tests shorten it.
var second = time.Second

// An operationError is a failed operation. Nothing remains of what it made.
type operationError struct {
	name string
	// said is the failure in the form of a refused call. Its code is 0 if the operation has
	// none. Its items are the operation's errors, the first of which may be only a summary.
	said *googleapi.Error
}

func (e *operationError) Error() string {
	items := cloud.Each(e.said.Errors, func(item googleapi.ErrorItem) string { return item.Reason + ": " + item.Message })
	return fmt.Sprintf("operation %s: %s", e.name, strings.Join(items, "; "))
}

func (e *operationError) Unwrap() error { return e.said }

// failed returns why an operation has failed, or nil. Google's client checks only the status,
// which may be missing, and has the reasons only as text.
func failed(op *computepb.Operation) error {
	status := int(op.GetHttpErrorStatusCode())
	if op.GetError() == nil && status < 400 {
		return nil
	}
	said := &googleapi.Error{Code: status}
	for _, f := range op.GetError().GetErrors() {
		item := googleapi.ErrorItem{Reason: f.GetCode(), Message: f.GetMessage()}
		for _, detail := range f.GetErrorDetails() {
			if info := detail.GetErrorInfo(); info != nil {
				said.Details = append(said.Details, map[string]any{"reason": info.GetReason()})
			}
			if quota := detail.GetQuotaInfo(); quota != nil {
				item.Message += fmt.Sprintf(" (%s, limit %v)", quota.GetMetricName(), quota.GetLimit())
			}
		}
		said.Errors = append(said.Errors, item)
	}
	if len(said.Errors) == 0 {
		said.Errors = []googleapi.ErrorItem{{Reason: fmt.Sprint(status), Message: op.GetHttpErrorMessage()}}
	}
	return &operationError{op.GetName(), said}
}

// await waits until an operation is done, and returns its failure, if any. If ctx ends first,
// it returns ctx's error. The Wait of Google's client polls up to a minute apart.
func (c *client) await(ctx context.Context, op *computepb.Operation) error {
	for wait := second / 2; ; wait = min(2*wait, 3*second) {
		if op.GetStatus() == computepb.Operation_DONE {
			return failed(op)
		}
		if !retry.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
		now, err := c.poll(ctx, op)
		if err != nil {
			return err
		}
		op = now
	}
}

// uuid derives a request ID from a text.
func uuid(of string) string {
	b := sha256.Sum256([]byte(of))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // the bits of a random UUID
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
