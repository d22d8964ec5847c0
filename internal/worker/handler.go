package worker

import (
	"context"

	"github.com/gputrain/gputrain/internal/codec"
)

// A Handler is a function as the worker calls it. It owns arg, and must not change its result afterwards. It should
// return soon after ctx ends; see [Client.Call] for what happens otherwise. s is nil unless the call has a stream.
type Handler func(ctx context.Context, arg codec.Body, s *Stream) (codec.Body, error)
