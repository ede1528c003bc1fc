package config

// ByLabel is the data.balance that there is.
const ByLabel = "label"
