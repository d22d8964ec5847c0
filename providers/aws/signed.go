package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/rest"
)

// signer signs requests for an AWS service that is called without the SDK.
func signer(cfg sdk.Config, service, region string) func(req *http.Request, hide func(...string)) error {
	v := v4.NewSigner()
	return func(req *http.Request, hide func(...string)) error {
		creds, err := cfg.Credentials.Retrieve(req.Context())
		if err != nil {
			return noCredentials(err)
		}
		hide(creds.SecretAccessKey, creds.SessionToken)
		var body []byte
		if req.GetBody != nil {
			r, err := req.GetBody()
			if err != nil {
				return err
			}
			if body, err = bounded.ReadAll(r, maxAnswer); err != nil {
				return err
			}
		}
		sum := sha256.Sum256(body)
		return v.SignHTTP(req.Context(), creds, req, hex.EncodeToString(sum[:]), service, region, time.Now())
	}
}

// jsonService returns a client of a service that speaks the JSON protocol.
func jsonService(own *http.Client, address string, sign func(*http.Request, func(...string)) error) (*rest.Client, error) {
	return rest.New(rest.Config{
		BaseURL: address, HTTPClient: own, Timeout: own.Timeout, Attempts: maxAttempts, Fault: fault, Auth: rest.Auth{Sign: sign},
	})
}

// jsonCall makes a read-only call of the JSON protocol.
func jsonCall(ctx context.Context, service *rest.Client, operation string, in, out any) error {
	return service.Do(ctx, "POST", "/", in, out, rest.Safe,
		rest.Header("X-Amz-Target", operation), rest.Header("Content-Type", "application/x-amz-json-1.1"))
}

// fault reads a failure of that protocol.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Type    string `json:"__type"` // "com.amazonaws.ssm#ParameterNotFound"
		Lower   string `json:"message"`
		Message string `json:"Message"`
	}
	if status < 400 || json.Unmarshal(body, &said) != nil || said.Type == "" {
		return nil
	}
	return &rest.Fault{Code: said.Type[strings.LastIndexByte(said.Type, '#')+1:], Message: said.Lower + said.Message}
}
