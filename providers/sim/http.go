package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// JSON forms of prices, which have none, and of host keys, which print as "[redacted]"
// everywhere else.
type (
	wireOffer struct {
		driver.Offer
		HourlyUSD *float64
	}
	wireInstance struct {
		driver.Instance
		SSH   wireEndpoint
		Offer wireOffer
	}
	wireEndpoint struct {
		Addr, User string
		HostKeys   []string
	}
	wireResource struct {
		driver.Resource
		HourlyUSD *float64
	}
	wireNode struct {
		Rank            int
		Name            string
		Private, Public string
	}
	wireRequest struct {
		request
		Offer wireOffer
		Nodes []wireNode
	}
	wireAnswer struct {
		Account   *account        `json:",omitempty"`
		Offers    []wireOffer     `json:",omitempty"`
		Instances []wireInstance  `json:",omitempty"`
		Resources []wireResource  `json:",omitempty"`
		Done      bool            `json:",omitempty"`
		Balance   *driver.Balance `json:",omitempty"`
		Quota     *driver.Quota   `json:",omitempty"`
		// Has names the fields above that are present, though they may be empty.
		Has   string     `json:",omitempty"`
		Error *wireError `json:",omitempty"`
	}
	wireError struct {
		Code, Message, Request string
		Instances              []wireInstance `json:",omitempty"`
	}
)

func toUSD(p driver.Price) *float64 {
	if usd, known := p.USD(); known {
		return &usd
	}
	return nil
}

func fromUSD(usd *float64) driver.Price {
	if usd == nil {
		return driver.Price{}
	}
	return driver.USD(*usd)
}

func toOffer(o driver.Offer) wireOffer { return wireOffer{o, toUSD(o.HourlyUSD)} }

func (w wireOffer) offer() driver.Offer {
	w.Offer.HourlyUSD = fromUSD(w.HourlyUSD)
	return w.Offer
}

func toInstance(in driver.Instance) wireInstance {
	return wireInstance{in, wireEndpoint{in.SSH.Addr, in.SSH.User, in.SSH.HostKeys}, toOffer(in.Offer)}
}

func (w wireInstance) instance() driver.Instance {
	in := w.Instance
	in.SSH = driver.Endpoint{Addr: w.SSH.Addr, User: w.SSH.User, HostKeys: w.SSH.HostKeys}
	in.Offer = w.Offer.offer()
	return in
}

func each[A, B any](all []A, f func(A) B) []B {
	out := make([]B, 0, len(all))
	for _, a := range all {
		out = append(out, f(a))
	}
	return out
}

// Handler serves the cloud's API for Config.Endpoint. Machines that were launched over it
// listen on ports of 127.0.0.1.
func (c *Cloud) Handler() http.Handler { return http.HandlerFunc(c.serveHTTP) }

// Serve serves the API on a port of 127.0.0.1 until the cloud is closed, and returns its
// address for Config.Endpoint.
func (c *Cloud) Serve() (endpoint string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: time.Minute}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.closed {
		l.Close()
		return "", errors.New("the cloud is closed")
	}
	c.servers = append(c.servers, s)
	c.life.wg.Go(func() { s.Serve(l) })
	return "http://" + l.Addr().String(), nil
}

// maxBody bounds the bytes that either side reads.
const maxBody = 16 << 20

func (c *Cloud) serveHTTP(w http.ResponseWriter, hr *http.Request) {
	var in wireRequest
	if hr.Method != http.MethodPost || hr.URL.Path != "/v1/call" {
		http.Error(w, "only POST /v1/call exists", http.StatusNotFound)
		return
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, hr.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r := in.request
	r.remote = true
	r.Offer = in.Offer.offer()
	r.Nodes = each(in.Nodes, func(n wireNode) driver.NodeRequest {
		return driver.NodeRequest{Rank: n.Rank, Name: n.Name, HostKey: driver.HostKey{Private: driver.Secret(n.Private), Public: n.Public}}
	})
	token := driver.Secret(strings.TrimPrefix(hr.Header.Get("Authorization"), "Bearer "))
	a, err := c.call(hr.Context(), token, r)
	switch {
	case errors.Is(err, errGarbage):
		io.WriteString(w, "<html>It works!</html>\n")
		return
	case err != nil:
		var e *apiError
		if !errors.As(err, &e) {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int64((e.RetryAfter+time.Second-1)/time.Second)))
		}
		w.WriteHeader(e.Status)
		json.NewEncoder(w).Encode(wireAnswer{Error: &wireError{e.Code, e.Message, e.Request, each(e.Instances, toInstance)}})
		return
	}
	out := wireAnswer{Account: a.Account, Done: a.Done, Balance: a.Balance, Quota: a.Quota}
	switch {
	case a.Offers != nil:
		out.Has, out.Offers = "offers", each(a.Offers, toOffer)
	case a.Instances != nil:
		out.Has, out.Instances = "instances", each(a.Instances, toInstance)
	case a.Resources != nil:
		out.Has, out.Resources = "resources", each(a.Resources, func(r driver.Resource) wireResource { return wireResource{r, toUSD(r.HourlyUSD)} })
	}
	json.NewEncoder(w).Encode(out)
}

// A remote is a cloud that another program serves.
type remote struct {
	url       string
	authorize func(*http.Request)
	client    *http.Client
}

func newRemote(endpoint string, token driver.Secret) (*remote, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &driver.Error{Provider: name, Op: "open", Kind: driver.ErrInvalid,
			Err: errors.New("Config.Endpoint is not an address such as http://127.0.0.1:8080; Cloud.Serve returns one")}
	}
	return &remote{
		url:       strings.TrimSuffix(endpoint, "/") + "/v1/call",
		authorize: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+string(token)) },
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // only this server may get the token
		},
	}, nil
}

func (c *remote) call(ctx context.Context, r request) (answer, error) {
	in := wireRequest{request: r, Offer: toOffer(r.Offer), Nodes: each(r.Nodes, func(n driver.NodeRequest) wireNode {
		return wireNode{n.Rank, n.Name, string(n.HostKey.Private), n.HostKey.Public}
	})}
	body, err := json.Marshal(in)
	if err != nil {
		return answer{}, err
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	hr.GetBody = nil // net/http must not repeat a launch by itself
	hr.Header.Set("Content-Type", "application/json")
	c.authorize(hr)
	resp, err := c.client.Do(hr)
	if err != nil {
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		return answer{}, fmt.Errorf("%w: %w", errLost, err)
	}
	defer resp.Body.Close()
	var out wireAnswer
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errLost, err)
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode < 400 {
		return answer{}, fmt.Errorf("%w: it redirects to %s://%s, which is not followed", errGarbage, to.Scheme, to.Host)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		if resp.StatusCode != http.StatusOK {
			return answer{}, &apiError{Status: resp.StatusCode, Message: http.StatusText(resp.StatusCode)}
		}
		return answer{}, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if out.Error != nil {
		e := &apiError{Status: resp.StatusCode, Code: out.Error.Code, Message: out.Error.Message, Request: out.Error.Request}
		e.Instances = each(out.Error.Instances, wireInstance.instance)
		if seconds, err := time.ParseDuration(resp.Header.Get("Retry-After") + "s"); err == nil {
			e.RetryAfter = seconds
		}
		return answer{}, e
	}
	a := answer{Account: out.Account, Done: out.Done, Balance: out.Balance, Quota: out.Quota}
	switch out.Has {
	case "offers":
		a.Offers = each(out.Offers, wireOffer.offer)
	case "instances":
		a.Instances = each(out.Instances, wireInstance.instance)
	case "resources":
		a.Resources = each(out.Resources, func(w wireResource) driver.Resource {
			w.Resource.HourlyUSD = fromUSD(w.HourlyUSD)
			return w.Resource
		})
	}
	return a, nil
}

func (c *remote) close() { c.client.CloseIdleConnections() }
