package httpapi

import (
	"crypto/subtle"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/internal/shorten"
)

// guard rejects requests that were sent to an unknown host name or that come
// from another web page.
func (a *Adapter) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if host := hostOf(r.Host); !loopback(host) && !slices.ContainsFunc(a.cfg.Hosts, func(s string) bool { return strings.EqualFold(s, host) }) {
			(&openaiapi.Failure{Status: http.StatusMisdirectedRequest, Kind: openaiapi.Invalid, Code: "unknown_host",
				Text: "This API is not reached under that host name. The operator can list it in platforms.http.hosts."}).Write(w)
			return
		}
		if origin, ok := r.Header["Origin"]; ok {
			h.Add("Vary", "Origin")
			if len(origin) != 1 || !slices.Contains(a.cfg.Origins, origin[0]) {
				(&openaiapi.Failure{Status: http.StatusForbidden, Kind: openaiapi.Invalid, Code: "origin_refused",
					Text: "Web pages may not use this API. The operator can list the page's origin in platforms.http.origins."}).Write(w)
				return
			}
			h.Set("Access-Control-Allow-Origin", origin[0])
			h.Set("Access-Control-Expose-Headers", "X-Hermes-Session, X-Hermes-Message, X-Hermes-Ignored, Retry-After")
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Hermes-Session")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// keyed rejects requests without the key.
func (a *Adapter) keyed(next http.HandlerFunc) http.HandlerFunc { return requireKey(next, a.key) }

// requireKey rejects requests without a key that has one of the digests.
func requireKey(next http.HandlerFunc, digests ...[32]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := digest(strings.TrimSpace(given))
		same := 0
		for _, d := range digests {
			same |= subtle.ConstantTimeCompare(sum[:], d[:])
		}
		if same != 1 || !strings.EqualFold(scheme, "Bearer") {
			(&openaiapi.Failure{Status: http.StatusUnauthorized, Kind: openaiapi.Invalid, Code: "invalid_api_key",
				Text: "The API key is missing or wrong. Send it as Authorization: Bearer KEY; the daemon keeps it in its home directory."}).Write(w)
			return
		}
		next(w, r)
	}
}

// limited limits the number of concurrent requests.
func (a *Adapter) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.sem <- struct{}{}:
			defer func() { <-a.sem }()
			next(w, r)
		default:
			(&openaiapi.Failure{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "too_many_requests", After: 2 * time.Second,
				Text: "Too many requests wait for their answers. Send this one again in a moment."}).Write(w)
		}
	}
}

func (a *Adapter) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /metrics", requireKey(a.o.Metrics.ServeHTTP, digest(a.o.MetricsKey.Reveal()), a.key))
	mux.HandleFunc("GET /v1/models", a.keyed(a.models))
	mux.HandleFunc("GET /v1/models/{id...}", a.keyed(a.model))
	mux.HandleFunc("POST /v1/chat/completions", a.keyed(a.limited(a.completions)))
	mux.HandleFunc("/v1/", a.keyed(unknown))
	mux.HandleFunc("/", unknown)
	return &http.Server{
		Handler: a.guard(mux), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: quiet(a.o.Log),
	}
}

// quiet returns the error log of net/http: panics, and protocol errors of
// clients.
func quiet(l *zap.Logger) *log.Logger {
	std, err := zap.NewStdLogAt(l, zap.WarnLevel)
	if err != nil {
		return log.New(io.Discard, "", 0)
	}
	return std
}

// unknown handles paths that this API does not have.
func unknown(w http.ResponseWriter, r *http.Request) {
	f := &openaiapi.Failure{Status: http.StatusNotFound, Kind: openaiapi.Invalid, Code: "unknown_url",
		Text: "There is no " + r.Method + " " + shorten.To(r.URL.Path, 40) + ". This API has POST /v1/chat/completions, GET /v1/models, GET /healthz and GET /readyz."}
	switch r.URL.Path {
	case "/v1/chat/completions", "/v1/models", "/healthz", "/readyz":
		f.Status, f.Code = http.StatusMethodNotAllowed, "method_not_allowed"
	}
	f.Write(w)
}
