package worker

import (
	"context"

	"github.com/gputrain/gputrain/internal/codec"
)

// A Handler is a function as the worker sees it. It owns arg. What it returns
// may not be changed afterwards. It should return soon after ctx ends; see
// [Client.Call] for what happens if it does not. s is nil unless the call has
// a stream.
type Handler func(ctx context.Context, arg codec.Body, s *Stream) (codec.Body, error)
