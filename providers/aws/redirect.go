package aws

import (
	"context"
	"net"
	"net/http"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// unredirected returns a client for calls that carry a credential: a redirect is their
// answer, and nothing is sent where it leads. Go's client, and the SDK's own, would send
// the session's token there, in a header that they do not know for one.
func unredirected(c http.Client) *http.Client {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// sentBy has the SDK's calls sent by another client than the one that it has chosen. The
// calls that look for credentials go to several services, which do not all take
// config.WithHTTPClient; this reaches all of them.
func sentBy(client func() *http.Client) func(*middleware.Stack) error {
	send := func(ctx context.Context, in middleware.DeserializeInput, _ middleware.DeserializeHandler) (out middleware.DeserializeOutput, about middleware.Metadata, err error) {
		out.RawResponse, about, err = smithyhttp.NewClientHandlerWithOptions(client()).Handle(ctx, in.Request)
		return out, about, err
	}
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("gputrain: unredirected", send), middleware.After)
	}
}

// searchDial bounds one attempt to connect to a service that may have credentials. Off EC2
// nothing answers for the last of them, the machine's role.
const searchDial = 3 * time.Second

// searchClient returns the client that looks for credentials where the user has given none:
// with the SDK's certificates, which may be those of AWS_CA_BUNDLE.
func searchClient(cfg sdk.Config) (*http.Client, func()) {
	base, ok := cfg.HTTPClient.(*sdkhttp.BuildableClient)
	if !ok {
		base = sdkhttp.NewBuildableClient()
	}
	transport := base.WithDialerOptions(func(d *net.Dialer) { d.Timeout = searchDial }).GetTransport()
	return unredirected(http.Client{Transport: transport}), transport.CloseIdleConnections
}
