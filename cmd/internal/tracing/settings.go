package tracing

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
		if v := env("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return env("OTEL_EXPORTER_OTLP_" + name)
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
		base := env("OTEL_EXPORTER_OTLP_ENDPOINT")
		if base == "" {
			base = "http://localhost:4318"
		}
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
