package openaiapi

import (
	"encoding/base64"
	"fmt"
	"mime"
	"strings"
)

// DataURL returns the content of a data: URL if it is a base64-encoded image.
func DataURL(s string) (kind string, content []byte, err error) {
	head, data, ok := strings.Cut(s[len("data:"):], ",")
	if !ok {
		return "", nil, fmt.Errorf("its data: URL has no comma")
	}
	media, encoded := strings.CutSuffix(head, ";base64")
	if !encoded {
		return "", nil, fmt.Errorf("its data: URL is not in base64")
	}
	kind, _, err = mime.ParseMediaType(media)
	if err != nil || !strings.HasPrefix(kind, "image/") {
		return "", nil, fmt.Errorf("its data: URL does not say that it is an image")
	}
	data = strings.TrimRight(data, "=")
	content, err = base64.RawStdEncoding.DecodeString(data)
	if err != nil {
		return "", nil, fmt.Errorf("its base64 is damaged")
	}
	if len(content) == 0 {
		return "", nil, fmt.Errorf("it is empty")
	}
	return kind, content, nil
}
