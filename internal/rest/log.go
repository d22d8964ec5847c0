package rest

import (
	"log/slog"
	"time"
)

// log logs the outcome of an attempt, without the query and without a body.
func (k *call) log(status int, err *Error) {
	l, ctx := k.client.cfg.Logger, k.request.Context()
	if l == nil || !l.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", k.request.Method),
		slog.String("path", k.client.Redact(k.path)),
		slog.Int("status", status),
		slog.Duration("elapsed", time.Since(k.began)),
		slog.Int("attempt", k.attempt),
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", err.Code), slog.String("request", err.RequestID))
		if err.Err != nil {
			attrs = append(attrs, slog.String("error", err.Err.Error()))
		}
	}
	l.LogAttrs(ctx, slog.LevelDebug, "API call", attrs...)
}
