package web

import "net/url"

// Markdown returns the readable text of the HTML page at a URL.
func Markdown(raw []byte, page *url.URL) string { return read(raw, page).text }
