package media

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

const maxSniffed = 512 // number of leading bytes that are examined

// extensions maps content types to the extensions of files in the cache. Extensions
// depend on the content only; programs that get the path rely on them.
var extensions = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp", "image/heic": ".heic", "image/avif": ".avif",
	"audio/mpeg": ".mp3", "audio/wave": ".wav", "audio/ogg": ".ogg", "audio/mp4": ".m4a", "audio/flac": ".flac", "audio/aiff": ".aiff",
	"video/mp4": ".mp4", "video/webm": ".webm", "video/avi": ".avi", "video/ogg": ".ogg", "video/quicktime": ".mov",
	"application/pdf": ".pdf", "application/zip": ".zip", "application/x-gzip": ".gz", "application/x-rar-compressed": ".rar",
	"text/plain": ".txt", "text/html": ".html", "text/xml": ".xml",
}

// detectType returns the MIME type of a file that begins with head, and the extension
// for its path. The declared type is used only if the content is ambiguous and does not
// contradict it.
func detectType(head []byte, declared string) (mimeType, extension string) {
	content := sniff(head)
	extension = extensions[content]
	if extension == "" {
		extension = ".bin"
	}
	declared, _, err := mime.ParseMediaType(declared)
	if err != nil {
		return content, extension
	}
	class, _, _ := strings.Cut(declared, "/")
	fits := false
	switch content {
	case "text/plain", "text/xml":
		fits = class == "text" || class == "application" && declared != "application/octet-stream" || declared == "image/svg+xml"
	case "application/zip", "application/x-gzip":
		fits = class == "application" && declared != "application/octet-stream"
	case "audio/ogg":
		fits = declared == "video/ogg" || declared == "audio/opus" || declared == "application/ogg"
	case "application/octet-stream":
		// A type that sniffing can detect would have been detected.
		fits = class != "text" && extensions[declared] == ""
	}
	if fits {
		return declared, extension
	}
	return content, extension
}

func sniff(head []byte) string {
	if len(head) >= 12 && bytes.Equal(head[4:8], []byte("ftyp")) {
		switch brand := string(head[8:12]); {
		case strings.HasPrefix(brand, "M4A"), strings.HasPrefix(brand, "M4B"):
			return "audio/mp4"
		case brand == "heic" || brand == "heix" || brand == "mif1":
			return "image/heic"
		case brand == "avif":
			return "image/avif"
		case brand == "qt  ":
			return "video/quicktime"
		}
		return "video/mp4"
	}
	if bytes.HasPrefix(head, []byte("fLaC")) {
		return "audio/flac"
	}
	t, _, _ := strings.Cut(http.DetectContentType(head), ";")
	switch {
	case t == "application/ogg":
		return "audio/ogg"
	case t == "application/octet-stream" && len(head) > 1 && head[0] == 0xFF && head[1]&0xE6 == 0xE2: // MPEG audio without a tag
		return "audio/mpeg"
	}
	return t
}
