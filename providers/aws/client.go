package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// maxAnswer bounds the size of an answer. A page of a hundred types has half a MiB.
	maxAnswer = 64 << 20
	// maxAttempts bounds the attempts at a call that may be repeated.
	maxAttempts = 5
	// credentialTimeout bounds the search for credentials. Outside EC2 its last step, the
	// machine's role, gets no answer.
	credentialTimeout = 20 * time.Second
)

// second is the unit of all waiting. Tests shorten it.
var second = time.Second

// A client has the services that the driver calls. EC2 and STS use AWS's SDK. Of SSM, Price
// List, Service Quotas and IAM the driver makes only a few calls, without the SDK's packages, which take as
// long to build as the rest of this package.
type client struct {
	region  string
	local   bool // the region's EC2 endpoint is on this computer
	ec2     *ec2.Client
	sts     *sts.Client
	ssm     *rest.Client
	pricing *rest.Client // nil if no service lists prices in USD
	quotas  *rest.Client
	iam     *iamClient
	http    *http.Client // for calls that are not signed
	close   func()
}

func newClient(ctx context.Context, c Config) (*client, error) {
	cfg, err := load(ctx, c)
	if err != nil {
		return nil, err
	}
	own, closeIdle := http.Client{}, func() {}
	if c.HTTPClient != nil {
		own = *c.HTTPClient
	} else {
		base, ok := cfg.HTTPClient.(*sdkhttp.BuildableClient) // with the certificates of AWS_CA_BUNDLE
		if !ok {
			base = sdkhttp.NewBuildableClient()
		}
		transport := base.GetTransport()
		own.Transport, closeIdle = transport, transport.CloseIdleConnections
	}
	own.Timeout = c.RequestTimeout
	signed := unredirected(own)
	cl := &client{region: cfg.Region, http: &own, close: closeIdle}
	reader := answers{signed}
	cl.ec2 = ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		o.HTTPClient, o.Retryer = reader, again(retry.DefaultRetryables...)
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint
		}
	})
	cl.sts = sts.NewFromConfig(cfg, func(o *sts.Options) {
		o.HTTPClient, o.Retryer = reader, again(retry.DefaultRetryables...)
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint
		}
	})
	at := func(service, region, variable string) string {
		address := c.Endpoint
		if address == "" && !ignoresAddresses() {
			address = cmp.Or(os.Getenv(variable), sdk.ToString(cfg.BaseEndpoint))
		}
		return strings.TrimRight(cmp.Or(address, addressOf(service, region)), "/")
	}
	cl.local = localnet.IsURL(at("ec2", cl.region, "AWS_ENDPOINT_URL_EC2"))
	near, global := pricingRegion(cl.region), iamRegion(cl.region)
	cl.iam = &iamClient{at("iam", global, "AWS_ENDPOINT_URL_IAM"), reader, signer(cfg, "iam", global)}
	if cl.ssm, err = jsonService(signed, at("ssm", cl.region, "AWS_ENDPOINT_URL_SSM"), signer(cfg, "ssm", cl.region)); err == nil && near != "" {
		cl.pricing, err = jsonService(signed, at("pricing", near, "AWS_ENDPOINT_URL_PRICING"), signer(cfg, "pricing", near))
	}
	if err == nil {
		cl.quotas, err = jsonService(signed, at("servicequotas", cl.region, "AWS_ENDPOINT_URL_SERVICE_QUOTAS"), signer(cfg, "servicequotas", cl.region))
	}
	if err != nil {
		cl.end()
		return nil, fmt.Errorf("%w: the address of a service: %w", driver.ErrInvalid, err)
	}
	return cl, nil
}

// load finds the region and the credentials as AWS's command line does.
func load(ctx context.Context, c Config) (sdk.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	var options []func(*config.LoadOptions) error
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	var searching *http.Client
	options = append(options, config.WithAPIOptions([]func(*middleware.Stack) error{sentBy(func() *http.Client { return searching })}))
	if c.HTTPClient != nil && os.Getenv("AWS_CA_BUNDLE") == "" { // the SDK adds it to its own client only
		searching = unredirected(*c.HTTPClient)
		options = append(options, config.WithHTTPClient(searching))
	}
	if c.AccessKeyID != "" {
		var given [3]string
		for i, s := range []driver.Secret{c.AccessKeyID, c.SecretAccessKey, c.SessionToken} {
			var err error
			if given[i], err = secretref.Resolve(ctx, string(s)); err != nil {
				field := [...]string{"Config.AccessKeyID", "Config.SecretAccessKey", "Config.SessionToken"}[i]
				return sdk.Config{}, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("%s: %w", field, err)}
			}
			given[i] = strings.TrimSpace(given[i])
		}
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(given[0], given[1], given[2])))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cfg, noCredentials(err)
	}
	if searching == nil {
		var closeIdle func()
		searching, closeIdle = searchClient(cfg)
		defer closeIdle()
	}
	cfg.APIOptions = nil // those are for the credentials; the driver's own clients have theirs
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, noCredentials(err)
	}
	cfg.Region = cmp.Or(cfg.Region, defaultRegion)
	return cfg, nil
}

func noCredentials(err error) error {
	return &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("no credentials found: %w", err),
		Hint: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, Config.Profile, or run \"aws configure\" or \"aws sso login\""}
}

func ignoresAddresses() bool {
	return strings.EqualFold(os.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true")
}

// addressOf returns the address of a service that is called without the SDK.
func addressOf(service, region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	switch {
	case service == "pricing":
		service = "api.pricing"
	case service == "iam" && region == defaultRegion:
		return "https://" + service + "." + domain
	case service == "iam" && strings.HasPrefix(region, "us-gov-"):
		return "https://" + service + ".us-gov." + domain
	}
	return "https://" + service + "." + region + "." + domain
}

// pricingRegion returns the nearest region that lists prices in USD. It returns "" for
// GovCloud, which the Price List does not have, and for China, which bills in CNY.
func pricingRegion(region string) string {
	if strings.HasPrefix(region, "us-gov-") || !paysUSD(region) {
		return ""
	}
	switch area, _, _ := strings.Cut(region, "-"); area {
	case "eu", "me", "af", "il":
		return "eu-central-1"
	case "ap":
		return "ap-south-1"
	}
	return defaultRegion
}

// paysUSD reports whether EC2's prices in a region are in USD.
func paysUSD(region string) bool { return !strings.HasPrefix(region, "cn-") }

// iamRegion returns the only region of a partition that has IAM.
func iamRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "cn-north-1"
	case strings.HasPrefix(region, "us-gov-"):
		return "us-gov-west-1"
	}
	return defaultRegion
}

// end closes idle connections.
func (cl *client) end() {
	for _, r := range []*rest.Client{cl.ssm, cl.pricing, cl.quotas} {
		if r != nil {
			r.Close()
		}
	}
	cl.close()
}

// accountID returns the number of the account. The call needs no permission.
func (cl *client) accountID(ctx context.Context) (string, error) {
	out, err := cl.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	if sdk.ToString(out.Account) == "" {
		return "", fmt.Errorf("%w: GetCallerIdentity: the answer has no account", rest.ErrAnswer)
	}
	return *out.Account, nil
}

// again returns the SDK's policy for repeated calls: after a retryable failure or a rate limit,
// no earlier than the API asks for.
func again(retryables ...retry.IsErrorRetryable) sdk.Retryer {
	tooMany := retry.IsErrorRetryableFunc(func(err error) sdk.Ternary {
		if statusOf(err) == http.StatusTooManyRequests {
			return sdk.TrueTernary
		}
		return sdk.UnknownTernary
	})
	backoff := retry.NewExponentialJitterBackoff(20 * second)
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.Retryables = append([]retry.IsErrorRetryable{retry.NoRetryCanceledError{}, tooMany}, retryables...)
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			wait, failed := backoff.BackoffDelay(attempt, err)
			wait = time.Duration(float64(wait) * second.Seconds())
			if e, ok := errors.AsType[*sdkhttp.ResponseError](err); ok && e.Response != nil {
				if s, bad := strconv.Atoi(e.Response.Header.Get("Retry-After")); bad == nil && s > 0 {
					wait = max(wait, time.Duration(min(s, 300))*time.Second)
				}
			}
			return wait, failed
		})
	})
}

// once is the option of a call that creates something. The SDK repeats it only after a rate
// limit, or if the call certainly had no effect. InsufficientInstanceCapacity comes with a
// status after which the SDK would otherwise repeat the launch.
func once(o *ec2.Options) {
	o.Retryer = again(retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes})
}

// answers reads an answer to its end before the SDK does. The SDK takes a body that it does not
// understand, under a good status, for an empty answer.
type answers struct{ http *http.Client }

func (a answers) Do(req *http.Request) (*http.Response, error) {
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	large := resp.ContentLength > maxAnswer
	var body []byte
	if !large {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	}
	resp.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case large || len(body) > maxAnswer:
		return nil, fmt.Errorf("%w: the answer is longer than %d MiB", rest.ErrAnswer, maxAnswer>>20)
	case resp.StatusCode < 300:
		if err := isAnswer(body); err != nil {
			return nil, err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// isAnswer returns an error unless a body is a complete answer: XML whose root is closed and
// named after an action.
func isAnswer(body []byte) error {
	for dec := xml.NewDecoder(bytes.NewReader(body)); ; {
		token, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%w: the answer is not XML", rest.ErrAnswer)
		}
		root, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		name := root.Name.Local
		if !strings.HasSuffix(name, "Response") || !bytes.HasSuffix(bytes.TrimSpace(body), []byte("</"+name+">")) {
			return fmt.Errorf("%w: not a complete answer of the API: <%s>", rest.ErrAnswer, name)
		}
		return nil
	}
}
