package tracing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"hermesd/internal/backoff"
)

// An exporter logs when spans begin to be lost and when the collector accepts them
// again. It returns no errors.
type exporter struct {
	sdk.SpanExporter
	to     string
	log    *zap.Logger
	failed atomic.Bool
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.failed.Swap(true):
		e.log.Warn("cannot export traces", zap.String("endpoint", e.to), zap.Int("spans", len(spans)), zap.Error(err))
	case err == nil && e.failed.Swap(false):
		e.log.Info("collector accepts traces again")
	}
	return nil // logged above
}

// A client posts spans over OTLP/HTTP. It implements otlptrace.Client without gRPC,
// which the client of OpenTelemetry would require.
type client struct {
	s      Settings
	http   *http.Client
	ctx    context.Context // of all requests
	cancel context.CancelFunc
}

func newClient(s Settings) (*client, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: s.Timeout}
	if s.Certificate != "" {
		pem, err := os.ReadFile(s.Certificate)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s holds no certificate", s.Certificate)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	// Headers may contain a key, so redirects are not followed.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &client{s: s, http: &http.Client{Transport: t, CheckRedirect: noRedirect, Timeout: s.Timeout}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func (*client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error { c.http.CloseIdleConnections(); return nil }

// UploadTraces implements otlptrace.Client. It retries transient failures until ctx
// ends.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // encoded like an ExportTraceServiceRequest
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if c.s.Gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = b.Bytes()
	}
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 8*time.Second) {
		after, retry, err := c.post(ctx, body)
		if err == nil || !retry {
			return err
		}
		if backoff.Sleep(ctx, max(wait, after)) != nil {
			return err
		}
	}
}

// post sends body once. If the request may be retried, it returns retry and the
// least delay.
func (c *client) post(ctx context.Context, body []byte) (after time.Duration, retry bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	r.Header = c.s.Header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.s.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, true, err
	}
	defer func() { _ = resp.Body.Close() }()                     // read only
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		retry = true
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		after = time.Duration(s) * time.Second
	}
	return after, retry, fmt.Errorf("collector responded with %s", resp.Status)
}

// Settings configure the export of traces.
type Settings struct {
	Endpoint    string // URL that spans are posted to
	Header      http.Header
	Gzip        bool
	Timeout     time.Duration
	Certificate string // file with trusted CA certificates; "" for those of the system
}

// Shown returns the endpoint with its password redacted.
func (s Settings) Shown() string {
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}

// Read reads the settings from the environment variables of OpenTelemetry. on is
// false if they request no traces. The error names the variable to change.
func Read(env func(string) string) (s Settings, on bool, err error) {
	of := func(name string) string { // the variable for traces takes precedence over the general one
		return cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_"+name), env("OTEL_EXPORTER_OTLP_"+name))
	}
	exporter := strings.TrimSpace(env("OTEL_TRACES_EXPORTER"))
	switch {
	case strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && of("ENDPOINT") == "":
		return s, false, nil
	case exporter != "" && exporter != "otlp":
		return s, false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; hermesd has otlp and none", exporter)
	}
	if p := of("PROTOCOL"); p != "" && p != "http/protobuf" {
		return s, false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; hermesd speaks http/protobuf, which collectors take at port 4318", p)
	}
	s = Settings{Endpoint: env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), Timeout: 10 * time.Second, Certificate: of("CERTIFICATE")}
	if s.Endpoint == "" {
		base := cmp.Or(env("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")
		s.Endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if u, err := url.Parse(s.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return s, false, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL")
	}
	if s.Header, err = header(of("HEADERS")); err != nil {
		return s, false, err
	}
	switch c := of("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		s.Gzip = true
	default:
		return s, false, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; hermesd has gzip and none", c)
	}
	if v := of("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 {
			return s, false, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; it is a number of milliseconds", v)
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	return s, true, nil
}

// header parses headers in the form name=value,name=value with values escaped as in
// URLs. Its errors contain no values, because these may be secrets.
func header(list string) (http.Header, error) {
	h := make(http.Header)
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS is not of the form name=value,name=value with values escaped as in a URL")
		}
		h.Set(name, value)
	}
	return h, nil
}
