package rest

import "net/http"

// Auth puts a credential on requests. Its funcs hold the credential, so that neither fmt nor a debugger's dump of a
// Config prints it.
type Auth struct {
	// Sign is called before every attempt. It calls hide with the secrets that it puts there.
	Sign func(req *http.Request, hide func(secrets ...string)) error
	// Renew discards the credential that a request was refused with, and reports whether Sign can get another. Nil
	// means that it cannot.
	Renew func(refused *http.Request) bool
}

// Bearer signs with a key in the Authorization header. An empty key does not sign: some calls are public.
func Bearer(key string) Auth { return secretHeader("Authorization", "Bearer ", key) }

// HeaderKey signs with a key in a header of the API's own.
func HeaderKey(name, key string) Auth { return secretHeader(name, "", key) }

func secretHeader(name, prefix, key string) Auth {
	if key == "" {
		return Auth{}
	}
	return Auth{Sign: func(req *http.Request, hide func(...string)) error {
		hide(key)
		req.Header.Set(name, prefix+key)
		return nil
	}}
}

// QueryKey signs with a key in the URL.
func QueryKey(name, key string) Auth {
	return Auth{Sign: func(req *http.Request, hide func(...string)) error {
		hide(key)
		q := req.URL.Query()
		q.Set(name, key)
		req.URL.RawQuery = q.Encode()
		return nil
	}}
}
