"""What a release is made of: one version everywhere, charts that name its images, bills of materials."""
