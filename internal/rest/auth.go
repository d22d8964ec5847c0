package rest

import "net/http"

// Auth puts a credential on requests. It is made of funcs, which hold it, so that
// nothing prints it: not fmt, not a debugger's dump of a Config.
type Auth struct {
	// Sign is called before every attempt. It makes what it puts there known by hide.
	Sign func(req *http.Request, hide func(secrets ...string)) error
	// Renew gives up the credential that a request was refused with, and reports
	// whether Sign can get another. Nil means that there is no other.
	Renew func(refused *http.Request) bool
}

// Bearer signs with a key in the Authorization header.
func Bearer(key string) Auth { return secretHeader("Authorization", "Bearer ", key) }

// HeaderKey signs with a key in a header of the API's own.
func HeaderKey(name, key string) Auth { return secretHeader(name, "", key) }

func secretHeader(name, prefix, key string) Auth {
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
