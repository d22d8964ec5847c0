// Package rest makes JSON calls over HTTP: what all providers' clients have in common.
//
//	err := api.Do(ctx, "POST", "/servers", in, &out, rest.Limit(launches))
//
// A [Client] signs the call, keeps to the API's limits, repeats the call if that is right, and distrusts the answer: an
// empty, cut, too large or invalid one, or a failure under a good status, is an error and never an empty list.
//
// # What is repeated
//
// A call is repeated if that may help and does no harm. If nothing has happened (the connection could not be made, the
// status is 429, or it is 401 and there is a new token), that is any call. If something may have happened (a 5xx, a
// timeout, a cut connection, or a good status with an invalid body), it is a call that may be made twice: GET, HEAD,
// DELETE, and calls marked [Safe] or [Idempotent]. A create is never repeated if it may have had its effect: its error
// is then [Error.Ambiguous], and the provider looks for what it may have made. [Once] rules out any second attempt.
//
// Between attempts the client waits as long as Retry-After says, or up to half a minute, twice as long each time. The
// end of the context ends a call at once.
//
// # Failures
//
// Every failure of a call is an [*Error]. It has the status and the API's own code and message, which [Config.Fault]
// reads; providers map it to kinds of errors.
//
// # Secrets
//
// Credentials are kept in funcs ([Auth]), which nothing prints. The credentials of a call, and the fields of answers
// that Config.SecretFields names, are removed from every error and every line of the log; neither has the query of a
// URL. A redirect is followed within the server only, so no other server gets a credential.
package rest
