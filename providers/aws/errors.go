package aws

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// kinds are EC2's codes and those of its kin, and what they are.
var kinds = func() map[string]error {
	all := map[string]error{}
	for kind, codes := range map[error]string{
		gputrain.ErrNoCapacity: `InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity InsufficientCapacity
			UnfulfillableCapacity ReservationCapacityExceeded SpotMaxPriceTooLow Unsupported InsufficientFreeAddressesInSubnet`,
		gputrain.ErrQuota: `VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded SpotInstanceCountLimitExceeded MaxFleetCountExceeded
			VolumeLimitExceeded MaxIOPSLimitExceeded AddressLimitExceeded SecurityGroupLimitExceeded RulesPerSecurityGroupLimitExceeded
			PendingVerification LimitExceeded`,
		gputrain.ErrRateLimited: `RequestLimitExceeded Throttling ThrottlingException ThrottledException EC2ThrottledException
			TooManyRequestsException RequestThrottled RequestThrottledException SlowDown`,
		gputrain.ErrAuth: `AuthFailure UnauthorizedOperation AccessDenied AccessDeniedException InvalidClientTokenId UnrecognizedClientException
			SignatureDoesNotMatch InvalidSignatureException IncompleteSignature RequestExpired ExpiredToken ExpiredTokenException
			MissingAuthenticationToken MissingAuthenticationTokenException AuthFailure.ServiceLinkedRoleCreationNotPermitted OptInRequired Blocked`,
		gputrain.ErrNotFound: `InvalidInstanceID.NotFound InvalidGroup.NotFound InvalidKeyPair.NotFound InvalidLaunchTemplateId.NotFound
			InvalidLaunchTemplateName.NotFoundException InvalidAMIID.NotFound InvalidAMIID.Unavailable InvalidSubnetID.NotFound InvalidVpcID.NotFound
			InvalidPlacementGroup.Unknown InvalidVolume.NotFound NoSuchEntity ParameterNotFound`,
		gputrain.ErrInvalid: `InvalidParameterValue InvalidParameterCombination InvalidBlockDeviceMapping IdempotentParameterMismatch
			InvalidUserData.Malformed MissingParameter UnknownParameter MalformedPolicyDocument InvalidParameter
			ValidationError ValidationException`,
		gputrain.ErrUnsupported: `InvalidInstanceType UnsupportedOperation InvalidAction`,
		gputrain.ErrUnavailable: `InternalError InternalFailure InternalServerError ServiceUnavailable Unavailable DependencyViolation
			InvalidPlacementGroup.InUse DeleteConflict`,
	} {
		for _, code := range strings.Fields(codes) {
			all[code] = kind
		}
	}
	return all
}()

// hints are what to do about a kind of failure, where AWS's words do not say it.
var hints = map[error]string{
	gputrain.ErrAuth: "see that the credentials are right, that the region is enabled for the account, and that the policy in the documentation of package aws is granted",
	gputrain.ErrQuota: "ask for more in Service Quotas, under Amazon EC2: on-demand L-1216C47A (standard), L-DB2E81BA (G), L-417A185B (P), L-2C3B7624 (Trn), " +
		"L-1945791B (Inf), spot L-34B43A08, L-3819A6DF, L-7212CCBC, L-6B0D517C, L-B5D1601B; their units are vCPUs, and new accounts have none for G and P",
	gputrain.ErrRateLimited: "other programs use this account at the same time: try again in a minute",
}

// codeOf returns what programs tell a failure apart by, and what it says, where AWS has
// answered.
func codeOf(err error) (code, message string) {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode(), e.ErrorMessage()
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Code, e.Message
	}
	return "", ""
}

// isCode reports whether AWS has answered with one of the codes.
func isCode(err error, codes ...string) bool {
	code, _ := codeOf(err)
	return slices.Contains(codes, code)
}

// statusOf returns the HTTP status of a failure, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*sdkhttp.ResponseError](err); ok && e.Response != nil {
		return e.HTTPStatusCode()
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Status
	}
	return 0
}

// kindOf says what kind of failure an error is: by AWS's code before its status. What has
// no kind is nobody's refusal.
func kindOf(err error) error {
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		return known.Kind
	}
	if code, message := codeOf(err); code != "" {
		if kind := kindOfCode(code, message); kind != nil {
			return kind
		}
	}
	switch status := statusOf(err); {
	case status == http.StatusTooManyRequests:
		return gputrain.ErrRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return gputrain.ErrAuth
	case status >= 500:
		return gputrain.ErrUnavailable
	case status >= 400:
		return nil
	case errors.Is(err, gputrain.ErrInvalid):
		return gputrain.ErrInvalid
	case errors.Is(err, context.Canceled):
		return nil
	}
	if _, called := errors.AsType[*smithy.OperationError](err); called {
		return gputrain.ErrUnavailable // no answer, or none that is understood
	}
	if _, called := errors.AsType[*rest.Error](err); called || errors.Is(err, rest.ErrAnswer) {
		return gputrain.ErrUnavailable
	}
	return nil
}

// kindOfCode is the table of codes. A fleet says of a role that it may not make that it
// has no capacity.
func kindOfCode(code, message string) error {
	said := strings.ToLower(message)
	switch {
	case strings.Contains(said, "service-linked role"), strings.Contains(said, "servicelinkedrole"):
		return gputrain.ErrAuth
	case kinds[code] != nil:
		return kinds[code]
	case strings.HasSuffix(code, ".NotFound"):
		return gputrain.ErrNotFound
	case strings.HasSuffix(code, ".Malformed"):
		return gputrain.ErrInvalid
	}
	return nil
}

// isAmbiguous reports whether a call that should make something may have done so: AWS has
// not said no.
func isAmbiguous(err error) bool {
	kind := kindOf(err)
	return err != nil && (kind == nil || kind == gputrain.ErrUnavailable)
}

// isAnswered reports whether AWS itself has answered a call that failed, and not a gateway that
// has heard nothing from it. A create is not repeated after what leaves open what it has made.
func isAnswered(err error) bool {
	code, _ := codeOf(err)
	status := statusOf(err)
	return kinds[code] != nil || status == http.StatusInternalServerError || status == http.StatusNotImplemented
}

// isGone reports whether AWS says that what was named does not exist.
func isGone(err error) bool { return kindOf(err) == gputrain.ErrNotFound }

// isDenied reports whether the credentials are right, and may not do this.
func isDenied(err error) bool {
	return isCode(err, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
}

// fail gives a failure the form that callers see.
func fail(op string, err error) error { return cloud.Form(providerName, op, err, told) }

// told is what a failure tells, and what to do about it.
func told(err error) gputrain.Error {
	e := gputrain.Error{Kind: kindOf(err), RequestID: cloud.RequestID(err)}
	if answer, ok := errors.AsType[*sdkhttp.ResponseError](err); ok {
		e.RequestID = answer.RequestID
	}
	e.Hint = hints[e.Kind]
	switch code, _ := codeOf(err); code {
	case "OptInRequired":
		e.Hint = "the account has not signed up for this, or the region is not enabled for it: see its settings in AWS's console"
	case "PendingVerification":
		e.Hint = "AWS is still verifying the account, which takes up to four hours"
	case "DependencyViolation", "InvalidPlacementGroup.InUse", "DeleteConflict":
		e.Hint = "something still uses it, such as a machine that is shutting down: try again in a minute"
	}
	return e
}
