package llm

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
	"time"

	"hermesd/internal/lazyregexp"
)

// An ErrorResponse is the response of a service that failed: a status with its headers and
// body, or the error object of a stream that had already begun.
type ErrorResponse struct {
	Provider string
	Status   int         // HTTP status; 0 or 200 for an error inside a stream
	Header   http.Header // may be nil
	Body     []byte
	// Large reports whether the request was so long that a rejection without an explanation
	// probably means its length.
	Large bool
	At    time.Time // when it was received, for Retry-After hints that are absolute times
}

// Classify returns the Error for f, with its class, hints and limits. Its Message is the
// service's own sentence, shortened, without anything that looks like a key and without
// text that the service quoted from the request.
func Classify(f ErrorResponse) *Error {
	info := parseBody(f.Body)
	e := &Error{Provider: f.Provider, Status: f.Status, Message: info.message}
	if f.Status == http.StatusOK {
		e.Status = 0
	}
	e.Class = classOf(f, info)
	switch e.Class {
	case ContextOverflow:
		e.Limit = parseLimit(info.text)
		if strings.Contains(info.text, "long context") && e.Limit == 0 {
			e.Limit = 200_000
		}
	case Format:
		e.OutputLimit = parseOutputLimit(info.text)
		e.MaxTokens = cmp.Or(e.OutputLimit, parseOutputCap(info.text))
	case RateLimit, Overloaded, Server, Timeout, Unknown, Billing:
		e.After = parseAfter(f, info)
	}
	return e
}

// statusOf returns the status that decides the class: that of the response, or for an error
// inside a stream the one that its code or type stands for.
func statusOf(f ErrorResponse, info errorInfo) int {
	if f.Status != 0 && f.Status != http.StatusOK {
		return f.Status
	}
	if info.code >= 400 && info.code < 600 {
		return info.code
	}
	return statusOfKind[info.kind]
}

// statusOfKind maps the type or textual code of an error object to its status.
var statusOfKind = map[string]int{
	"invalid_request_error": 400, "badrequesterror": 400, "context_length_exceeded": 400, "invalid_prompt": 400,
	"authentication_error": 401, "invalid_api_key": 401,
	"billing_error": 402, "insufficient_quota": 402,
	"permission_error": 403,
	"not_found_error":  404, "model_not_found": 404,
	"timeout_error":     408,
	"request_too_large": 413,
	"rate_limit_error":  429, "rate_limit_exceeded": 429,
	"api_error": 500, "server_error": 500, "internal_server_error": 500,
	"overloaded_error": 529, "overloaded": 529, "provider_overloaded": 503, "provider_unavailable": 502,
}

func classOf(f ErrorResponse, info errorInfo) Class {
	t := info.text
	switch status := statusOf(f, info); {
	case status == 401:
		return Auth
	case status == 402:
		if matches(t, limitWords) && matches(t, laterWords) {
			return RateLimit
		}
		return Billing
	case status == 403:
		return classForbidden(t)
	case status == 404:
		return NotFound
	case status == 408:
		return Timeout
	case status == 413:
		return TooLarge
	case status == 429:
		return classTooMany(t, info.kind)
	case status == 503 || status == 529:
		return Overloaded
	case status >= 500:
		return classServer(t, info.kind, f)
	case status >= 400:
		return classRefused(t, f)
	case status >= 300:
		return Format
	}
	f.Large = false
	if c := classRefused(t, f); c != Format {
		return c
	}
	return Unknown
}

func classForbidden(t string) Class {
	switch {
	case matches(t, billingWords):
		return Billing
	case matches(t, policyWords):
		return ContentPolicy
	}
	return Auth
}

func classTooMany(t, kind string) Class {
	switch {
	case strings.Contains(t, "long context"):
		return ContextOverflow
	case kind == "insufficient_quota" || strings.Contains(t, "insufficient_quota") || strings.Contains(t, "exceeded your current quota"):
		return Billing
	case matches(t, overloadWords):
		return Overloaded
	}
	return RateLimit
}

// classServer finds rejections that some servers send as internal errors.
func classServer(t, kind string, f ErrorResponse) Class {
	f.Large = false
	switch c := classRefused(t, f); {
	case c == ContextOverflow || c == ImageTooLarge || c == PrefixCheck:
		return c
	case kind == "invalid_request_error" || kind == "badrequesterror" || strings.Contains(t, "validation error"):
		return c
	case matches(t, overloadWords):
		return Overloaded
	}
	return Server
}

// shortBody is the length below which a rejection explains nothing.
const shortBody = 30

// classRefused classifies a status 400 by its text. The order matters: an unsupported
// parameter may be called max_tokens, and an image that is too large is not a prompt that
// is too long.
func classRefused(t string, f ErrorResponse) Class {
	switch {
	case matches(t, toolPartWords):
		return Format
	case matches(t, imageWords):
		return ImageTooLarge
	case matches(t, thinkingWords):
		return PrefixCheck
	case matches(t, parameterWords):
		return Format
	case parseOutputCap(t) > 0 || matches(t, outputWords):
		return Format
	case matches(t, overflowWords):
		return ContextOverflow
	case matches(t, policyWords):
		return ContentPolicy
	case matches(t, modelWords):
		return NotFound
	case matches(t, rateWords):
		return RateLimit
	case matches(t, billingWords):
		return Billing
	case f.Large && len(t) < shortBody:
		return ContextOverflow
	}
	return Format
}

// The patterns of rejections, lower case.
var (
	toolPartWords = patterns(`tool message content must be`, `multimodal tool`, `image.*not supported in tool`, `tool_result.*image.*not supported`)
	imageWords    = patterns(`image exceeds`, `image too large`, `image is too large`, `image_too_large`, `image dimensions`, `image size.*exceed`, `dimensions exceed max`)
	thinkingWords = patterns(`bound to a different conversation`, "invalid `?signature`? in `?(redacted_)?thinking", `invalid_encrypted_content`,
		`encrypted content .*(could not|cannot) be`, `redacted_thinking.? blocks .*cannot be modified`, "expected `thinking` or", `thought.?signature`)
	parameterWords = patterns(`unsupported parameter`, `unsupported_parameter`, `unsupported value`, `unknown parameter`, `unrecognized request argument`,
		`extra inputs are not permitted`, `is not supported (for|with|by) this model`, `unexpected keyword argument`)
	outputWords = patterns(`maximum allowed number of output tokens`, `max_tokens is too large`, `max_completion_tokens is too large`,
		`range of max_tokens`, `available_tokens`)
	overflowWords = patterns(`context.?(length|size|window|limit)`, `maximum context`, `token limit`, `too many (input )?tokens`, `reduce the length`,
		`prompt is too long`, `prompt too long`, `max_model_len`, `maximum model length`, `slot context`, `input tokens?`, `input is too long`,
		`exceeds the (model'?s )?maximum`, `超过最大长度`, `上下文长度`, `上下文窗口`, `输入过长`)
	policyWords = patterns(`content.?policy`, `content.?filter`, `content management policy`, `usage polic`, `flagged`, `moderation`,
		`safety (system|filter|reasons)`, `prohibited`, `violat`)
	modelWords = patterns(`model_not_found`, `model.{0,80}(does not exist|not found|not available|is not supported|has been deprecated)`,
		`(invalid|unknown|no such) model`, `not a valid model`, `no endpoints found`, `no allowed providers`)
	rateWords    = patterns(`rate.?limit`, `too many requests`, `throttl`)
	billingWords = patterns(`credit balance`, `insufficient (credit|fund|balance|quota)`, `insufficient_quota`, `billing`, `key limit exceeded`,
		`(spend|spending|usage) limit`, `payment required`, `requires more credits`, `exceeded your current quota`)
	overloadWords = patterns(`overloaded`, `over capacity`, `at capacity`, `temporarily unavailable`, `try again later.*load`, `capacity (limit|exceeded)`)
	limitWords    = patterns(`usage limit`, `rate.?limit`, `limit (reached|exceeded)`, `quota`)
	laterWords    = patterns(`try again`, `resets? (at|in)`, `retry`, `wait`)
)

func patterns(alternatives ...string) func() *regexp.Regexp {
	return lazyregexp.New(strings.Join(alternatives, "|"))
}

func matches(text string, w func() *regexp.Regexp) bool { return w().MatchString(text) }
