package fakecloud

// GoogleError returns the answer of Google's APIs to a call that fails. The reason is a word such as notFound or
// rateLimitExceeded.
func GoogleError(status int, reason, message string) Answer {
	return Reply(status, map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]any{"domain": "global", "reason": reason, "message": message}},
	}})
}
