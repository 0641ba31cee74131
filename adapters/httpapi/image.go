package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
)

// maxImages is the maximum number of images per request.
const maxImages = 20

// files stores the images of a request and returns them as files. A failure has
// a text for the client; then the request is not accepted.
func (a *Adapter) files(ctx context.Context, images []string) ([]chat.File, *openaiapi.Failure) {
	if len(images) > maxImages {
		return nil, openaiapi.Refuse("messages", "too_many_images", "There are %d images; at most %d are taken.", len(images), maxImages)
	}
	var files []chat.File
	for i, ref := range images {
		name := fmt.Sprintf("image %d", i+1)
		kind, content, err := a.image(ctx, ref)
		if err != nil {
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: %v.", name, err)
		}
		if a.o.StoreFile == nil {
			return nil, openaiapi.Refuse("messages", "unsupported_content", "This daemon takes no images.")
		}
		f, err := a.o.StoreFile(ctx, chat.File{Kind: chat.Photo, Name: name, MIME: kind, Size: int64(len(content))}, content)
		if err != nil {
			text := f.FetchError
			if text == "" {
				text = "it could not be stored"
			}
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: %s.", name, text)
		}
		if !strings.HasPrefix(f.MIME, "image/") {
			return nil, openaiapi.Refuse("messages", "invalid_image", "%s cannot be taken: its content is no image but %s.", name, openaiapi.Clip(f.MIME))
		}
		files = append(files, f)
	}
	return files, nil
}

// image returns the content of an image URL.
func (a *Adapter) image(ctx context.Context, ref string) (kind string, content []byte, err error) {
	if strings.HasPrefix(strings.ToLower(ref), "data:") {
		return openaiapi.DataURL(ref)
	}
	u, err := url.Parse(ref)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("its url is neither a data: URL nor http(s)")
	}
	if a.o.Fetch == nil {
		return "", nil, fmt.Errorf("this daemon fetches no addresses for clients; send it as a data: URL")
	}
	content, err = a.o.Fetch(ctx, ref, a.cfg.MaxBody)
	if err != nil {
		return "", nil, err
	}
	return http.DetectContentType(content), content, nil
}
