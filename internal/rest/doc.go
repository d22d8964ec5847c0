// Package rest is JSON over HTTP, as the providers of clouds need it: what is the
// same for all of them, once.
//
//	err := api.Do(ctx, "POST", "/servers", in, &out, rest.Limit(launches))
//
// A [Client] signs the call, keeps to the API's limits, repeats it where that is
// right, and reads the answer with suspicion: what is empty, cut, too large, not JSON,
// or a failure under a good status is an error and never "nothing there".
//
// # What is repeated
//
// A call is tried again where that may help and does no harm: after a connection
// that could not be made, after a 429, and after a 401 where a new token can be had,
// any call, as nothing has happened; after a 5xx, a timeout, a cut connection or a good
// status with a body that is not understood only one that may be made twice. GET and HEAD may, so may DELETE, and what is marked
// [Safe] or [Idempotent]. A create may not, and is never repeated when it may have
// had its effect: its error is then [Error.Ambiguous], and the provider looks for what
// it may have made. [Once] rules out any second attempt.
//
// Between attempts the client waits as long as Retry-After says, or up to half a
// minute, twice as long each time. A context that ends, ends a call at once, wherever
// it is.
//
// # Failures
//
// Every failure of a call is an [*Error]. It carries the status and the API's own
// code and message, which the provider's [Config] says how to read; kinds of failure
// are for the provider to tell.
//
// # Secrets
//
// Credentials are kept in funcs ([Auth]), where nothing prints them. What signs a call,
// and what Config.SecretFields names in answers, is taken out of every error and every
// line of the log; the query of a URL is in neither. A redirect is followed within the
// server only, so no credential gets to another.
package rest
