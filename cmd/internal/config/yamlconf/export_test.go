package yamlconf

// Expand exports expand.
var Expand = expand
