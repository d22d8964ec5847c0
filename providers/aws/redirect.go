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

// unredirected returns a client for calls that carry a credential. It follows no redirect, but
// returns it as the answer. Go's client and the SDK's own would send the session's token to the
// new address, in a header that they do not treat as a credential.
func unredirected(c http.Client) *http.Client {
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// sentBy replaces the client that sends the SDK's calls. The search for credentials calls
// several services, not all of which use config.WithHTTPClient; this reaches all of them.
func sentBy(client func() *http.Client) func(*middleware.Stack) error {
	send := func(ctx context.Context, in middleware.DeserializeInput, _ middleware.DeserializeHandler) (out middleware.DeserializeOutput, about middleware.Metadata, err error) {
		out.RawResponse, about, err = smithyhttp.NewClientHandlerWithOptions(client()).Handle(ctx, in.Request)
		return out, about, err
	}
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("gputrain: unredirected", send), middleware.After)
	}
}

// searchDial bounds one attempt to connect to a service that may have credentials. Outside EC2
// the last of them, the machine's role, gets no answer.
const searchDial = 3 * time.Second

// searchClient returns the client that looks for credentials if the user has given none. It
// uses the SDK's certificates, which may be those of AWS_CA_BUNDLE.
func searchClient(cfg sdk.Config) (*http.Client, func()) {
	base, ok := cfg.HTTPClient.(*sdkhttp.BuildableClient)
	if !ok {
		base = sdkhttp.NewBuildableClient()
	}
	transport := base.WithDialerOptions(func(d *net.Dialer) { d.Timeout = searchDial }).GetTransport()
	return unredirected(http.Client{Transport: transport}), transport.CloseIdleConnections
}
